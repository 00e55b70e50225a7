//! The limits in force, which a reload replaces as a whole (OP-4).

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use relay_model::limits::Limits;

/// The limits in force, for everybody who asks for them again each time. Read without a lock; cheap to
/// clone, every clone is the same.
#[derive(Debug, Clone)]
pub struct LiveLimits(Arc<ArcSwap<Limits>>);

impl LiveLimits {
    /// The limits in force; not to be held across an await.
    pub fn load(&self) -> Guard<Arc<Limits>> {
        self.0.load()
    }

    /// The same, to be kept: for what goes on under the limits that it began with.
    pub fn load_full(&self) -> Arc<Limits> {
        self.0.load_full()
    }

    /// Puts others in force.
    pub(crate) fn store(&self, limits: Arc<Limits>) {
        self.0.store(limits);
    }
}

impl From<Arc<Limits>> for LiveLimits {
    fn from(limits: Arc<Limits>) -> Self {
        Self(Arc::new(ArcSwap::new(limits)))
    }
}
