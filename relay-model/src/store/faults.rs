//! What a database error means to a caller: worth another try later, or not. Neither SQLite's result
//! codes nor PostgreSQL's SQLSTATE pass through diesel, so fixed messages are read where diesel has
//! no kind for them; none of them holds a value, a path or a secret.

use diesel::result::{DatabaseErrorKind, Error};

use super::StoreError;

/// Beginnings of SQLite's and PostgreSQL's messages for what an operator has to see to, and that may
/// then go on: a full disk, a file beyond its limit, a file or server that is read-only.
const NOT_WRITABLE: [&str; 4] = [
    "database or disk is full",
    "disk I/O error",
    "attempt to write a readonly database",
    "could not extend file",
];

/// Beginnings of SQLite's messages for what may pass by itself or by an operator's hand: another
/// writer, a file system that is away.
const PASSING_IN_SQLITE: [&str; 4] = [
    "database is locked",
    "database table is locked",
    "unable to open database file",
    "locking protocol",
];

/// Beginnings of PostgreSQL's messages, and of libpq's, for what may pass: a server that is away,
/// stops or starts, and a transaction that another one was in the way of.
const PASSING_IN_POSTGRES: [&str; 18] = [
    "deadlock detected",
    "canceling statement due to",
    "terminating connection",
    "server closed the connection",
    "connection to server",
    "connection not open",
    "no connection to the server",
    "could not receive data from server",
    "could not send data to server",
    "lost synchronization with server",
    "SSL connection has been closed",
    "SSL SYSCALL error",
    "SSL error",
    "the database system is",
    "sorry, too many clients already",
    "remaining connection slots are reserved",
    "out of memory",
    "out of shared memory",
];

/// Beginnings of SQLite's messages for a file that will not mend.
const LASTING: [&str; 2] = ["file is not a database", "database disk image is malformed"];

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        // Why the rollback failed as well is no news: the transaction was over.
        let error = match error {
            Error::RollbackErrorOnCommit { commit_error, .. } => *commit_error,
            error => error,
        };
        let message = one_line(&error.to_string());
        if is_read_only(&error) || is_any_of(&NOT_WRITABLE, &message) {
            Self::NotWritable(message)
        } else if is_passing_kind(&error)
            || is_any_of(&PASSING_IN_SQLITE, &message)
            || is_any_of(&PASSING_IN_POSTGRES, &message)
        {
            Self::Unavailable(message)
        } else {
            Self::Failed(message)
        }
    }
}

/// A server that takes no writes may be one that hands over to another.
fn is_read_only(error: &Error) -> bool {
    matches!(
        error,
        Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _)
    )
}

/// Kinds that diesel tells apart itself.
fn is_passing_kind(error: &Error) -> bool {
    match error {
        Error::DatabaseError(kind, _) => matches!(
            kind,
            DatabaseErrorKind::ClosedConnection
                | DatabaseErrorKind::SerializationFailure
                | DatabaseErrorKind::UnableToSendCommand
        ),
        // A transaction whose end the server did not confirm.
        Error::BrokenTransactionManager => true,
        _ => false,
    }
}

/// libpq explains itself over several lines.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The error of a call that got no connection, and why none could be made, if that is known; `open`
/// are those that there are.
pub(super) fn no_connection(cause: Option<&str>, open: u32) -> StoreError {
    match cause {
        Some(cause) if is_any_of(&LASTING, cause) => StoreError::Failed(cause.to_owned()),
        Some(cause) if is_any_of(&NOT_WRITABLE, cause) => StoreError::NotWritable(one_line(cause)),
        Some(cause) => {
            let cause = one_line(cause);
            StoreError::Unavailable(format!("no connection could be made: {cause}"))
        }
        None if open == 0 => StoreError::Unavailable(
            "the database could not be opened in time; somebody may keep it locked, or its server \
             may be silent"
                .to_owned(),
        ),
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
    use super::*;

    fn mapped(message: &str) -> StoreError {
        Error::DatabaseError(DatabaseErrorKind::Unknown, Box::new(message.to_owned())).into()
    }

    #[test]
    fn what_may_pass_is_unavailable() {
        for message in PASSING_IN_SQLITE.into_iter().chain(PASSING_IN_POSTGRES) {
            assert!(matches!(mapped(message), StoreError::Unavailable(_)));
            assert!(matches!(
                no_connection(Some(message), 1),
                StoreError::Unavailable(_)
            ));
        }
        for (open, said) in [(0, "locked"), (8, "database.pool")] {
            let error = no_connection(None, open);
            assert!(matches!(&error, StoreError::Unavailable(text) if text.contains(said)));
        }
    }

    /// DR-4: another transaction that was in the way, and a server that went, are worth another try.
    #[test]
    fn kinds_that_pass_are_unavailable() {
        for kind in [
            DatabaseErrorKind::ClosedConnection,
            DatabaseErrorKind::SerializationFailure,
            DatabaseErrorKind::UnableToSendCommand,
        ] {
            let message = Box::new("das ging\n\tdaneben\n".to_owned());
            let mapped = StoreError::from(Error::DatabaseError(kind, message));
            let expected = StoreError::Unavailable("das ging daneben".to_owned());
            assert_eq!(mapped, expected);
        }
        let broken = StoreError::from(Error::BrokenTransactionManager);
        assert!(matches!(broken, StoreError::Unavailable(_)));
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
        let expected = StoreError::NotWritable("database or disk is full".to_owned());
        assert_eq!(StoreError::from(full), expected);
    }

    /// OP-5: what somebody has to see to says at what, whether it is met by a query or a connection.
    #[test]
    fn what_cannot_be_written_says_what_to_look_for() {
        for message in NOT_WRITABLE {
            for error in [mapped(message), no_connection(Some(message), 1)] {
                assert_eq!(error, StoreError::NotWritable(message.to_owned()));
                let said = error.to_string();
                assert!(
                    said.contains("full disk") && said.contains(message),
                    "{said}"
                );
            }
        }
        let kind = DatabaseErrorKind::ReadOnlyTransaction;
        let refused = StoreError::from(Error::DatabaseError(kind, Box::new("nein".to_owned())));
        assert_eq!(refused, StoreError::NotWritable("nein".to_owned()));
    }

    #[test]
    fn what_stays_is_failed() {
        for message in LASTING {
            assert!(matches!(mapped(message), StoreError::Failed(_)));
            assert!(matches!(
                no_connection(Some(message), 1),
                StoreError::Failed(_)
            ));
        }
        for message in ["no such table: devices", "NOT NULL constraint failed"] {
            assert!(matches!(mapped(message), StoreError::Failed(_)));
        }
        assert!(matches!(Error::NotFound.into(), StoreError::Failed(_)));
    }
}
