//! How many pushes became what, by service and kind (OP-6).

use relay_model::push::{PushOutcome, PushPlatform};

/// Who is to deliver a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushService {
    /// Apple's.
    Apns,
    /// Google's.
    Fcm,
    /// Whoever it would have been: the phones' tokens were not read yet.
    Unread,
}

impl PushService {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Apns, Self::Fcm, Self::Unread];

    /// Its name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apns => "apns",
            Self::Fcm => "fcm",
            Self::Unread => "unread",
        }
    }
}

impl From<PushPlatform> for PushService {
    fn from(platform: PushPlatform) -> Self {
        match platform {
            PushPlatform::Ios => Self::Apns,
            PushPlatform::Android => Self::Fcm,
        }
    }
}

/// The two kinds of push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushKind {
    /// PUSH-2.
    DesktopOnline,
    /// PUSH-3.
    Alert,
}

impl PushKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::DesktopOnline, Self::Alert];

    /// Its name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DesktopOnline => "desktop_online",
            Self::Alert => "alert",
        }
    }
}

/// Counts since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushCounts(
    [[[u64; PushOutcome::ALL.len()]; PushKind::ALL.len()]; PushService::ALL.len()],
);

impl PushCounts {
    pub(super) fn add(
        &mut self,
        service: PushService,
        kind: PushKind,
        outcome: PushOutcome,
        more: u64,
    ) {
        self.0[service as usize][kind as usize][outcome as usize] += more;
    }

    /// How many of this service and kind became this.
    pub fn get(&self, service: PushService, kind: PushKind, outcome: PushOutcome) -> u64 {
        self.0[service as usize][kind as usize][outcome as usize]
    }

    /// All counts, zeros included, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (PushService, PushKind, PushOutcome, u64)> {
        let all = PushService::ALL.into_iter().flat_map(|service| {
            let kinds = PushKind::ALL.into_iter();
            kinds.flat_map(move |kind| {
                let outcomes = PushOutcome::ALL.iter();
                outcomes.map(move |outcome| (service, kind, *outcome))
            })
        });
        all.map(|(service, kind, outcome)| {
            (service, kind, outcome, self.get(service, kind, outcome))
        })
    }
}

/// What the pushes of a relay do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, actix::MessageResponse)]
pub struct PushState {
    /// What waits to be sent, for the first or another time.
    pub queued: usize,
    /// What is being sent or looked up.
    pub in_flight: usize,
    /// Desktops that registered a short time ago (PUSH-2).
    pub desktops: usize,
    /// What became of all others.
    pub counts: PushCounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-6: every combination has a count of its own.
    #[test]
    fn counts_are_kept_apart() {
        let mut counts = PushCounts::default();
        let all: Vec<_> = counts.iter().collect();
        assert_eq!(all.len(), 3 * 2 * 7);
        for (number, (service, kind, outcome, _)) in all.into_iter().enumerate() {
            counts.add(service, kind, outcome, number as u64);
        }
        let numbers: Vec<u64> = counts.iter().map(|(.., count)| count).collect();
        assert_eq!(numbers, (0..42).collect::<Vec<u64>>());
    }
}
