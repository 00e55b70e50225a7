//! What a database error means to a caller: worth another try later, or not. SQLite's result codes
//! do not pass through diesel, so its fixed messages are read instead; none of them holds a value,
//! a path or a secret.

use diesel::result::Error;

use super::StoreError;

/// Beginnings of SQLite's messages for what may pass by itself or by an operator's hand: another
/// writer, a full disk, a file system that is away.
const PASSING: [&str; 6] = [
    "database is locked",
    "database table is locked",
    "database or disk is full",
    "disk I/O error",
    "unable to open database file",
    "locking protocol",
];

/// Beginnings of SQLite's messages for a file that will not mend.
const LASTING: [&str; 3] = [
    "file is not a database",
    "database disk image is malformed",
    "attempt to write a readonly database",
];

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        // Why the rollback failed as well is no news: the transaction was over.
        let error = match error {
            Error::RollbackErrorOnCommit { commit_error, .. } => *commit_error,
            error => error,
        };
        let message = error.to_string();
        if is_any_of(&PASSING, &message) {
            Self::Unavailable(message)
        } else {
            Self::Failed(message)
        }
    }
}

/// The error of a call that got no connection, and why none could be made, if that is known.
pub(super) fn no_connection(cause: Option<&str>) -> StoreError {
    match cause {
        Some(cause) if is_any_of(&LASTING, cause) => StoreError::Failed(cause.to_owned()),
        Some(cause) => StoreError::Unavailable(format!("no connection could be made: {cause}")),
        None => StoreError::Unavailable(
            "no connection became free in time; database.pool may be too small".to_owned(),
        ),
    }
}

fn is_any_of(beginnings: &[&str], message: &str) -> bool {
    beginnings
        .iter()
        .any(|beginning| message.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use diesel::result::DatabaseErrorKind;

    use super::*;

    fn mapped(message: &str) -> StoreError {
        Error::DatabaseError(DatabaseErrorKind::Unknown, Box::new(message.to_owned())).into()
    }

    #[test]
    fn what_may_pass_is_unavailable() {
        for message in PASSING {
            assert!(matches!(mapped(message), StoreError::Unavailable(_)));
            assert!(matches!(
                no_connection(Some(message)),
                StoreError::Unavailable(_)
            ));
        }
        assert!(matches!(no_connection(None), StoreError::Unavailable(_)));
    }

    /// A commit that fails for want of room has nothing left to roll back.
    #[test]
    fn a_failed_commit_tells_its_own_cause() {
        let fault = |message: &str| {
            let message = Box::new(message.to_owned());
            Box::new(Error::DatabaseError(DatabaseErrorKind::Unknown, message))
        };
        let full = Error::RollbackErrorOnCommit {
            commit_error: fault("database or disk is full"),
            rollback_error: fault("cannot rollback - no transaction is active"),
        };
        let expected = StoreError::Unavailable("database or disk is full".to_owned());
        assert_eq!(StoreError::from(full), expected);
    }

    #[test]
    fn what_stays_is_failed() {
        for message in LASTING {
            assert!(matches!(mapped(message), StoreError::Failed(_)));
            assert!(matches!(
                no_connection(Some(message)),
                StoreError::Failed(_)
            ));
        }
        for message in ["no such table: devices", "NOT NULL constraint failed"] {
            assert!(matches!(mapped(message), StoreError::Failed(_)));
        }
        assert!(matches!(Error::NotFound.into(), StoreError::Failed(_)));
    }
}
