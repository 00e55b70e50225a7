//! Who is attached to the pair: its desktop, and every phone of the account.

use actix::Handler;
use indexmap::IndexMap;
use relay_model::ids::ConnectionId;
use relay_model::wire::OutgoingText;

use super::{
    Desktop, DesktopAttached, DesktopGone, DesktopOffline, DesktopReconnecting, DesktopRoute,
    PhoneAttached, PhoneForgotten, PhoneGone, PhoneRoute, RegistryActor,
};

impl RegistryActor {
    /// Takes the desktop's route away if it is this connection's.
    pub(super) fn detach_desktop(&mut self, connection: ConnectionId) {
        if matches!(&self.desktop, Desktop::Attached(route) if route.socket.connection == connection)
            && let Desktop::Attached(route) =
                std::mem::replace(&mut self.desktop, Desktop::Reconnecting)
        {
            self.end_requests_of(&route.socket);
        }
    }
}

impl Handler<DesktopAttached> for RegistryActor {
    type Result = Vec<OutgoingText>;

    fn handle(
        &mut self,
        DesktopAttached(socket): DesktopAttached,
        _: &mut Self::Context,
    ) -> Vec<OutgoingText> {
        let current = match &self.desktop {
            Desktop::Attached(route) => Some(route.socket.clone()),
            Desktop::Offline | Desktop::Reconnecting => None,
        };
        // Registered again on the same socket, its requests stay its own (REG-10).
        if current.as_ref().map(|current| current.connection) != Some(socket.connection) {
            if let Some(replaced) = current {
                self.end_requests_of(&replaced);
            }
            self.desktop = Desktop::Attached(DesktopRoute {
                socket,
                forwarded: 0,
            });
        }
        self.report_if_idle();
        self.restart_timelines()
    }
}

impl Handler<DesktopGone> for RegistryActor {
    type Result = ();

    fn handle(&mut self, DesktopGone { connection }: DesktopGone, _: &mut Self::Context) {
        self.detach_desktop(connection);
        self.report_if_idle();
    }
}

impl Handler<DesktopReconnecting> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: DesktopReconnecting, _: &mut Self::Context) {
        if matches!(self.desktop, Desktop::Offline) {
            self.desktop = Desktop::Reconnecting;
        }
    }
}

impl Handler<DesktopOffline> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: DesktopOffline, _: &mut Self::Context) {
        if matches!(self.desktop, Desktop::Reconnecting) {
            self.desktop = Desktop::Offline;
        }
        self.report_if_idle();
    }
}

impl Handler<PhoneAttached> for RegistryActor {
    type Result = ();

    fn handle(&mut self, attached: PhoneAttached, _: &mut Self::Context) {
        let PhoneAttached {
            phone,
            route: socket,
            targets_this,
        } = attached;
        // Whether it is another connection or this one registered again, a lease of before has ended
        // (TL-3, REG-10).
        if let Some(former) = self.phones.get(&phone) {
            let former = former.socket.connection;
            self.end_lease_of(phone, former);
        }
        self.phones.insert(
            phone,
            PhoneRoute {
                socket,
                targets_this,
            },
        );
        self.report_if_idle();
    }
}

impl Handler<PhoneGone> for RegistryActor {
    type Result = ();

    fn handle(&mut self, PhoneGone { phone, connection }: PhoneGone, _: &mut Self::Context) {
        let current = self.phones.get(&phone).map(|route| route.socket.connection);
        if current == Some(connection) {
            // The phone's requests stay: it may come back for the answers (RPC-8).
            self.end_lease_of(phone, connection);
            self.phones.shift_remove(&phone);
            if self.phones.is_empty() {
                self.phones = IndexMap::new();
            }
        }
        self.report_if_idle();
    }
}

impl Handler<PhoneForgotten> for RegistryActor {
    type Result = ();

    fn handle(&mut self, PhoneForgotten(phone): PhoneForgotten, _: &mut Self::Context) {
        // Nobody is left who could be told.
        self.pending.end_of_phone(phone);
        self.report_if_idle();
    }
}
