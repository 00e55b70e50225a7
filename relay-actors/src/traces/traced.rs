//! Which pending requests of a pair are traced. Most pairs have none, and own nothing then.

use std::collections::HashMap;
use std::sync::Arc;

use super::OpenTrace;

/// The traces of pending requests, by request id.
#[derive(Debug, Default)]
pub(crate) struct TracedRequests(Option<Box<Table>>);

#[derive(Debug, Default)]
struct Table(HashMap<Box<str>, Arc<OpenTrace>>);

impl TracedRequests {
    /// Keeps the trace of a request until it is taken.
    pub(crate) fn keep(&mut self, id: &str, trace: Arc<OpenTrace>) {
        let Table(traces) = &mut **self.0.get_or_insert_default();
        traces.insert(id.into(), trace);
    }

    /// Takes the trace of a request that ends, if it has one.
    pub(crate) fn take(&mut self, id: &str) -> Option<Arc<OpenTrace>> {
        let Table(traces) = self.0.as_deref_mut()?;
        let trace = traces.remove(id);
        if traces.is_empty() {
            self.0 = None;
        }
        trace
    }

    /// Lets go of those whose request is not pending any more.
    pub(crate) fn retain(&mut self, is_pending: impl Fn(&str) -> bool) {
        if let Some(Table(traces)) = self.0.as_deref_mut() {
            traces.retain(|id, _| is_pending(id));
            if traces.is_empty() {
                self.0 = None;
            }
        }
    }
}
