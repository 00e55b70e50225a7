//! Updates that a connection prepares once and then reuses. Diesel caches no update of its own, since
//! what one sets may differ from call to call and every form would stay in the cache. Those made here
//! have one form a place, and they are what a registration and a heartbeat cost: SQLite takes longer
//! to read such a statement than to carry it out, and PostgreSQL is asked to prepare it each time.

use diesel::backend::Backend;
use diesel::expression::AppearsOnTable;
use diesel::query_builder::{AsChangeset, AstPass, QueryFragment, QueryId};
use diesel::sql_types::BoolOrNullableBool;
use diesel::{QueryResult, RunQueryDsl, Table};

/// `UPDATE table SET changes WHERE filter`, with every value bound.
pub(super) struct PreparedUpdate<T, C, F> {
    table: T,
    changes: C,
    filter: F,
}

/// Updates the rows of `table` that `filter` takes. The changes are to name the same columns at each
/// use: an `Option` that leaves one out would make another statement, which is kept as well.
pub(super) fn prepared_update<T, C, F>(
    table: T,
    changes: C,
    filter: F,
) -> PreparedUpdate<T::FromClause, C::Changeset, F>
where
    T: Table,
    C: AsChangeset<Target = T>,
    F: AppearsOnTable<T>,
    F::SqlType: BoolOrNullableBool,
{
    PreparedUpdate {
        table: table.from_clause(),
        changes: changes.as_changeset(),
        filter,
    }
}

impl<T, C, F, DB> QueryFragment<DB> for PreparedUpdate<T, C, F>
where
    DB: Backend,
    T: QueryFragment<DB>,
    C: QueryFragment<DB>,
    F: QueryFragment<DB>,
{
    fn walk_ast<'b>(&'b self, mut pass: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        pass.push_sql("UPDATE ");
        self.table.walk_ast(pass.reborrow())?;
        pass.push_sql(" SET ");
        self.changes.walk_ast(pass.reborrow())?;
        pass.push_sql(" WHERE ");
        self.filter.walk_ast(pass)
    }
}

/// The statement's text is the key under which it is kept, so that two forms are never mistaken for
/// each other.
impl<T, C, F> QueryId for PreparedUpdate<T, C, F> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<T, C, F, Connection> RunQueryDsl<Connection> for PreparedUpdate<T, C, F> {}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use diesel::connection::{InstrumentationEvent, SimpleConnection};
    use diesel::prelude::*;

    use super::*;

    diesel::table! {
        things (id) {
            id -> Integer,
            number -> Integer,
        }
    }

    /// KA-1, PR-6: the update is prepared once for all its uses, and takes each time what it is given.
    #[test]
    fn an_update_is_prepared_once() {
        let mut connection = SqliteConnection::establish(":memory:").unwrap();
        connection
            .batch_execute(
                "CREATE TABLE things (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
                 INSERT INTO things VALUES (1, 0), (2, 0)",
            )
            .unwrap();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&kept);
        connection.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::CacheQuery { sql, .. } = event {
                noted.lock().unwrap().push(sql.to_owned());
            }
        });
        for (id, number, changed) in [(1, 10, 1), (2, 20, 1), (1, 30, 1), (3, 40, 0)] {
            let update =
                prepared_update(things::table, things::number.eq(number), things::id.eq(id));
            assert_eq!(update.execute(&mut connection), Ok(changed));
        }
        let kept = kept.lock().unwrap().clone();
        assert!(kept.len() == 1 && kept[0].starts_with("UPDATE"), "{kept:?}");
        let numbers = things::table.select(things::number).order(things::id);
        assert_eq!(numbers.load::<i32>(&mut connection), Ok(vec![30, 20]));
    }
}
