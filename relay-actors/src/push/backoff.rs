//! How long a push waits for its next attempt (PUSH-4). Pure.

use std::time::Duration;

use relay_model::limits::Limits;

/// The wait before the attempt that follows `failed` failed ones: it doubles with each up to a
/// ceiling, of which `chance` (0 to `u32::MAX`) leaves something between half and all, so that pushes
/// that failed together do not come back together. A service that names a time gets at least that.
pub(super) fn wait(
    failed: u32,
    chance: u32,
    retry_after: Option<Duration>,
    limits: &Limits,
) -> Duration {
    let doublings = failed.saturating_sub(1).min(31);
    let whole = limits
        .push_backoff
        .saturating_mul(1 << doublings)
        .min(limits.push_backoff_ceiling);
    let share = |of: Duration| of.mul_f64(f64::from(chance) / f64::from(u32::MAX));
    match retry_after {
        // Never earlier than asked, and not all in the same instant.
        Some(asked) if asked >= whole => asked + share(limits.push_backoff),
        _ => whole / 2 + share(whole / 2),
    }
    .max(retry_after.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PUSH-4: the wait doubles to its ceiling and keeps between half and all of it.
    #[test]
    fn waits_double_and_are_jittered() {
        let limits = Limits {
            push_backoff: Duration::from_secs(1),
            push_backoff_ceiling: Duration::from_secs(60),
            ..Limits::default()
        };
        for (failed, whole) in [
            (1, 1),
            (2, 2),
            (3, 4),
            (6, 32),
            (7, 60),
            (40, 60),
            (u32::MAX, 60),
        ] {
            let whole = Duration::from_secs(whole);
            assert_eq!(wait(failed, 0, None, &limits), whole / 2);
            assert_eq!(wait(failed, u32::MAX, None, &limits), whole);
            let some = wait(failed, u32::MAX / 2, None, &limits);
            assert!(some > whole / 2 && some < whole);
        }
    }

    /// PUSH-4: never earlier than the service asks for.
    #[test]
    fn a_service_may_ask_for_more() {
        let limits = Limits::default();
        for seconds in [0, 1, 7, 600, 100_000] {
            let asked = Duration::from_secs(seconds);
            for chance in [0, 1, u32::MAX] {
                let waits = wait(3, chance, Some(asked), &limits);
                assert!(waits >= asked, "{waits:?} for {asked:?}");
            }
        }
    }
}
