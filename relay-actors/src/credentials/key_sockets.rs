//! Which sockets came in by which API key.

use indexmap::IndexMap;
use relay_model::ids::{ApiKeyId, ConnectionId};

use crate::socket::SocketHandle;

/// The sockets by key. A key has few, so they stand in a list.
#[derive(Default)]
pub(super) struct KeySockets {
    by_key: IndexMap<ApiKeyId, Vec<SocketHandle>>,
}

impl KeySockets {
    pub(super) fn insert(&mut self, key: ApiKeyId, socket: SocketHandle) {
        self.by_key.entry(key).or_default().push(socket);
    }

    pub(super) fn remove(&mut self, key: ApiKeyId, connection: ConnectionId) {
        let Some(sockets) = self.by_key.get_mut(&key) else {
            return;
        };
        sockets.retain(|socket| socket.connection != connection);
        if sockets.is_empty() {
            self.by_key.swap_remove(&key);
        }
    }

    pub(super) fn of(&self, key: ApiKeyId) -> &[SocketHandle] {
        self.by_key.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn keys(&self) -> Vec<ApiKeyId> {
        self.by_key.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.values().map(Vec::len).sum()
    }
}
