//! What a trace says of connections and devices: who is connected, as far as the devices can know.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use relay_model::limits::{DESKTOP_RECONNECT_GRACE, Limits};
use relay_model::store::DeviceStatus;

use super::removals::Exile;
use crate::simulator::cast::{Cast, DeviceNo};
use crate::simulator::frames::Word;
use crate::simulator::trace::{ConnectionNo, Leaving};

/// Instants nearer than this are taken for one: timers have whole milliseconds.
pub(super) const SLACK: Duration = Duration::from_millis(20);

/// A registration that was sent and is not answered.
#[derive(Debug, Clone)]
pub(super) struct Checking {
    pub(super) at: Duration,
    pub(super) target: Option<DeviceNo>,
    pub(super) resume: Option<String>,
}

/// A registration that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registered {
    /// When its reply was heard.
    pub(super) at: Duration,
    /// When it was sent: a later one takes over, whichever is answered first.
    pub(super) sent_at: Duration,
}

/// One connection.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) device: DeviceNo,
    pub(super) opened_at: Duration,
    pub(super) last_sent: Option<Duration>,
    pub(super) checking: Option<Checking>,
    pub(super) registered: Option<Registered>,
    pub(super) target: Option<DeviceNo>,
    pub(super) reading: bool,
    /// Since when it does not read.
    pub(super) away_since: Duration,
    /// Since when it has read all the time, if it does.
    pub(super) reads_since: Duration,
    /// It has read ever since it was opened.
    pub(super) attentive: bool,
    pub(super) left: Option<Leaving>,
    pub(super) closed: Option<u16>,
    pub(super) ended_at: Option<Duration>,
    /// When a registration was last answered, which is when what was held back leaves.
    pub(super) released_at: Duration,
    /// `relayUnavailable` was heard.
    pub(super) refused: bool,
    pub(super) heartbeats: u64,
    pub(super) pongs: u64,
    /// What it last heard of each desktop.
    pub(super) known: BTreeMap<DeviceNo, (Word, u64)>,
    /// A reply came and the status of the target behind it did not yet (PR-5).
    pub(super) awaits_status: bool,
    /// Its device was removed, and it does not read: it is none any more and does not know.
    pub(super) removed: bool,
    /// Its registration was refused as its device is forgotten.
    pub(super) refused_forgotten: bool,
    /// It was refused with `relayDraining`.
    pub(super) refused_draining: bool,
    /// How often it heard of each device that it is forgotten, and of which in this step.
    pub(super) unlinked: BTreeMap<DeviceNo, usize>,
    pub(super) news: BTreeSet<DeviceNo>,
}

impl Connection {
    pub(super) fn new(device: DeviceNo, at: Duration) -> Self {
        Self {
            device,
            opened_at: at,
            last_sent: None,
            checking: None,
            registered: None,
            target: None,
            reading: true,
            away_since: at,
            reads_since: Duration::ZERO,
            attentive: true,
            left: None,
            closed: None,
            ended_at: None,
            released_at: Duration::ZERO,
            refused: false,
            heartbeats: 0,
            pongs: 0,
            known: BTreeMap::new(),
            awaits_status: false,
            removed: false,
            refused_forgotten: false,
            refused_draining: false,
            unlinked: BTreeMap::new(),
            news: BTreeSet::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.ended_at.is_none()
    }

    /// When it sent its last `register`.
    pub(super) fn register_at(&self) -> Option<Duration> {
        let answered = self.registered.map(|registered| registered.sent_at);
        self.checking
            .as_ref()
            .map(|checking| checking.at)
            .or(answered)
    }

    /// It was reset in the step in which it last said something: the relay may not have read that.
    pub(super) fn is_cut_short(&self, quiet_at: Duration) -> bool {
        self.left == Some(Leaving::Reset) && self.last_sent > Some(quiet_at)
    }

    /// Open, reading, and nothing is held back from it (REG-7): what is sent to it is heard at once.
    pub(super) fn hears_at_once(&self) -> bool {
        self.is_open() && self.reading && self.checking.is_none()
    }
}

/// Where a device stands when nothing moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It never had a route.
    Never,
    /// This connection is its route.
    Online(ConnectionNo),
    /// Its last route ended between these times; `None` if it may have had none at all.
    Gone {
        earliest: Option<Duration>,
        latest: Duration,
    },
    /// Its user forgot it or signed out on it, which ended its route or its grace.
    Removed,
    /// It has a connection that does not read and so cannot tell what became of it. Its route has
    /// not ended before this time; `None` if it may have had none at all.
    Doubtful { since: Option<Duration> },
}

/// One device.
#[derive(Debug, Clone)]
pub(super) struct Device {
    pub(super) connections: Vec<ConnectionNo>,
    pub(super) standing: Standing,
    /// Its standing when nothing moved the last time.
    pub(super) before: Standing,
    /// Its standing when it was known the last time.
    pub(super) certain: Standing,
    /// When its last registered connection ended since then, if one did.
    route_ended: Option<Duration>,
    /// Whether all that ended since then were replaced.
    pub(super) only_replaced: bool,
    pub(super) session: Option<String>,
    /// A registration may have made a session that the device does not know.
    pub(super) session_in_doubt: bool,
    pub(super) exile: Exile,
}

/// Everything that is known at a point of a trace.
pub(super) struct Facts<'a> {
    pub(super) cast: &'a Cast,
    pub(super) limits: &'a Limits,
    pub(super) now: Duration,
    /// When nothing moved the last time.
    pub(super) quiet_at: Duration,
    pub(super) connections: Vec<Connection>,
    pub(super) devices: Vec<Device>,
    pub(super) stopping: bool,
    /// When a drain was first seen to close a socket.
    pub(super) closing_since: Option<Duration>,
    /// Until when the database did badly.
    pub(super) bad_weather_until: Duration,
}

impl<'a> Facts<'a> {
    pub(super) fn new(cast: &'a Cast, limits: &'a Limits) -> Self {
        let device = Device {
            connections: Vec::new(),
            standing: Standing::Never,
            before: Standing::Never,
            certain: Standing::Never,
            route_ended: None,
            only_replaced: true,
            session: None,
            session_in_doubt: false,
            exile: Exile::default(),
        };
        Self {
            cast,
            limits,
            now: Duration::ZERO,
            quiet_at: Duration::ZERO,
            connections: Vec::new(),
            devices: cast.devices().map(|_| device.clone()).collect(),
            stopping: false,
            closing_since: None,
            bad_weather_until: Duration::ZERO,
        }
    }

    pub(super) fn connection(&self, number: ConnectionNo) -> &Connection {
        &self.connections[number.0]
    }

    pub(super) fn connection_mut(&mut self, number: ConnectionNo) -> &mut Connection {
        &mut self.connections[number.0]
    }

    pub(super) fn device(&self, number: DeviceNo) -> &Device {
        &self.devices[number.0]
    }

    /// Takes note that a connection is over; the first word counts.
    pub(super) fn end(&mut self, number: ConnectionNo) {
        let now = self.now;
        let connection = &mut self.connections[number.0];
        if connection.ended_at.is_some() {
            return;
        }
        connection.ended_at = Some(now);
        let replaced = connection.closed == Some(4410) && connection.left.is_none();
        let unanswered = connection.checking.is_some();
        let was_route = !connection.removed
            && (connection.registered.is_some() || unanswered && !connection.attentive);
        let device = &mut self.devices[connection.device.0];
        device.connections.retain(|known| *known != number);
        device.session_in_doubt |= unanswered;
        if was_route {
            device.route_ended = Some(now);
        }
        device.only_replaced &= replaced;
    }

    /// Whether what this connection says can have no effect any more: it is over, or a later
    /// registration of its device was answered (REG-6).
    pub(super) fn is_superseded(&self, number: ConnectionNo) -> bool {
        let connection = self.connection(number);
        let register_at = connection.register_at();
        let others = &self.device(connection.device).connections;
        !connection.is_open()
            || connection.removed
            || others
                .iter()
                .filter(|other| **other != number)
                .any(|other| {
                    let registered = self.connection(*other).registered;
                    registered.is_some_and(|registered| register_at < Some(registered.sent_at))
                })
    }

    /// Finds out where a device stands, when nothing moves. Returns the connections that both read
    /// and were registered: there must not be more than one.
    pub(super) fn settle(&mut self, number: DeviceNo) -> Vec<ConnectionNo> {
        let device = self.device(number);
        let removed = device.exile.removed_at().filter(|at| *at > self.quiet_at);
        let ended_so = removed.is_some_and(|at| device.route_ended.is_none_or(|end| end <= at));
        let open = device.connections.iter().copied();
        let open = open.filter(|connection| !self.connection(*connection).removed);
        let registered: Vec<_> = open
            .clone()
            .filter(|connection| self.connection(*connection).registered.is_some())
            .collect();
        let current = registered
            .iter()
            .copied()
            .max_by_key(|connection| self.connection(*connection).register_at());
        let since_register = current.and_then(|current| self.connection(current).register_at());
        let away = open
            .filter(|connection| {
                let connection = self.connection(*connection);
                !connection.reading
                    && connection.register_at().is_some()
                    && connection.register_at() >= since_register
            })
            .map(|connection| self.connection(connection).away_since)
            .min();
        let standing = match (current, away, device.standing) {
            (None, None, _) if ended_so => Standing::Removed,
            (_, Some(_), _) if removed.is_some() => Standing::Doubtful { since: None },
            (_, Some(_), doubtful @ Standing::Doubtful { .. }) => doubtful,
            (_, Some(_), Standing::Gone { earliest, .. }) => Standing::Doubtful { since: earliest },
            (_, Some(_), Standing::Never | Standing::Removed) => Standing::Doubtful { since: None },
            (_, Some(since), Standing::Online(_)) => Standing::Doubtful { since: Some(since) },
            (Some(current), None, _) => Standing::Online(current),
            (None, None, Standing::Doubtful { since }) => match device.route_ended {
                Some(latest) => Standing::Gone {
                    earliest: since,
                    latest,
                },
                None => device.certain,
            },
            (None, None, before) => match device.route_ended {
                Some(at) => Standing::Gone {
                    earliest: Some(at),
                    latest: at,
                },
                None => before,
            },
        };
        let device = &mut self.devices[number.0];
        device.standing = standing;
        if !matches!(standing, Standing::Doubtful { .. }) {
            device.certain = standing;
        }
        registered
            .into_iter()
            .filter(|connection| self.connections[connection.0].reading)
            .collect()
    }

    /// Begins the next step.
    pub(super) fn next_step(&mut self) {
        for device in &mut self.devices {
            device.before = device.standing;
            if device.certain == device.standing {
                device.route_ended = None;
            }
            device.only_replaced = true;
            device.exile.next_step();
        }
        for connection in &mut self.connections {
            connection.news.clear();
        }
        self.quiet_at = self.now;
    }

    /// What a desktop must be at `at`, by its standing; `None` if nobody can know.
    pub(super) fn truth(&self, standing: Standing, at: Duration) -> Option<DeviceStatus> {
        let grace = DESKTOP_RECONNECT_GRACE;
        match standing {
            Standing::Never | Standing::Removed => Some(DeviceStatus::Offline),
            Standing::Online(_) => Some(DeviceStatus::Online),
            Standing::Gone { earliest, .. }
                if earliest.is_some_and(|earliest| at + SLACK < earliest + grace) =>
            {
                Some(DeviceStatus::Reconnecting)
            }
            Standing::Gone { latest, .. } if at > latest + grace + SLACK => {
                Some(DeviceStatus::Offline)
            }
            Standing::Gone { .. } | Standing::Doubtful { .. } => None,
        }
    }

    /// The connection that is a device's route.
    pub(super) fn route(&self, device: DeviceNo) -> Option<ConnectionNo> {
        match self.device(device).standing {
            Standing::Online(connection) => Some(connection),
            _ => None,
        }
    }

    /// Whether a connection is its device's route beyond doubt, and has been since before this step:
    /// nothing that is under way may make another one the route.
    pub(super) fn is_undisputed(&self, number: ConnectionNo) -> bool {
        let connection = self.connection(number);
        let device = self.device(connection.device);
        let sent_at = connection.registered.map(|registered| registered.sent_at);
        let rivals = device.connections.iter().filter(|other| **other != number);
        self.steady_route(connection.device) == Some(number)
            && connection.hears_at_once()
            && rivals
                .map(|rival| self.connection(*rival).register_at())
                .all(|rival| rival < sent_at)
    }

    /// The connection that is a device's route, and was when nothing moved the last time.
    pub(super) fn steady_route(&self, device: DeviceNo) -> Option<ConnectionNo> {
        let device = self.device(device);
        match device.standing {
            Standing::Online(connection) if device.before == device.standing => Some(connection),
            _ => None,
        }
    }
}
