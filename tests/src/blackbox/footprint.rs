//! What the kernel says about a relay: its memory, its open files and the peers of its sockets, none
//! of which the relay itself can get wrong.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::process::Relay;
use crate::load::Process;

/// Descriptors that a relay may open at any time without a device's doing: its connections to the
/// database, at most eight with three files each, and those that the test's HTTP client keeps.
pub const OTHER_FILES: usize = 32;

/// `st` of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// `st` of an established connection.
const ESTABLISHED: &str = "01";

impl Relay {
    /// Its process.
    ///
    /// # Panics
    /// When it has ended.
    pub fn process(&self) -> Process {
        Process::new(self.process_id())
    }

    /// Its memory in RAM, in bytes.
    ///
    /// # Panics
    /// When it has ended.
    pub fn resident(&self) -> u64 {
        self.process().resident().expect("the relay runs")
    }

    /// How many descriptors it has open.
    ///
    /// # Panics
    /// When it has ended.
    pub fn open_files(&self) -> usize {
        descriptors(self.process_id()).count()
    }

    /// How many descriptors it has of sockets that the kernel has ended: those of connections that were
    /// reset stand in no table any more.
    ///
    /// # Panics
    /// When it has ended.
    pub fn dead_sockets(&self) -> usize {
        let held: BTreeSet<u64> = descriptors(self.process_id()).flatten().collect();
        let living = living_sockets();
        held.difference(&living).count()
    }

    /// The ports of those whose connections it has a descriptor of, reset ones left out.
    ///
    /// # Panics
    /// When it has ended.
    pub fn peers(&self) -> BTreeSet<u16> {
        let held: BTreeSet<u64> = descriptors(self.process_id()).flatten().collect();
        let connections = connections_to(self.address().port());
        let of_relay = connections.filter(|connection| held.contains(&connection.inode));
        of_relay.map(|connection| connection.peer).collect()
    }

    /// The ports of those whose connections to it the kernel knows as established.
    ///
    /// # Panics
    /// When the kernel tells nothing.
    pub fn established(&self) -> BTreeSet<u16> {
        let connections = connections_to(self.address().port());
        let established = connections.filter(|connection| connection.established);
        established.map(|connection| connection.peer).collect()
    }

    /// Bytes that the kernel holds for the peer on this port: not sent, or not acknowledged.
    ///
    /// # Panics
    /// When there is no such connection.
    pub fn unsent_to(&self, peer: u16) -> u64 {
        let mut connections = connections_to(self.address().port());
        let connection = connections.find(|connection| connection.peer == peer);
        connection.expect("a connection from that port").unsent
    }

    /// Waits until nothing is left of the connection from this port: no descriptor, be it of a connection
    /// that was reset, and none that the kernel goes on with.
    ///
    /// # Panics
    /// When it stays.
    pub async fn until_gone(&self, peer: u16) {
        let what = format!("the end of the connection from port {peer}");
        self.eventually(&what, async || {
            !self.peers().contains(&peer)
                && !self.established().contains(&peer)
                && self.dead_sockets() == 0
        })
        .await;
    }
}

/// The descriptors of a process: for each that is a socket its inode.
fn descriptors(process: u32) -> impl Iterator<Item = Option<u64>> {
    let folder = format!("/proc/{process}/fd");
    let entries = fs::read_dir(folder).expect("the relay runs");
    // One that is closed between the listing and this has no target any more, and does not count.
    let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.map(|target| socket_inode(&target))
}

fn socket_inode(target: &Path) -> Option<u64> {
    let name = target.to_str()?.strip_prefix("socket:[")?;
    name.strip_suffix(']')?.parse().ok()
}

/// The inodes of all sockets in the kernel's tables.
fn living_sockets() -> BTreeSet<u64> {
    // Each table with the place of the inode among its fields.
    let tables = [
        ("tcp", 9),
        ("tcp6", 9),
        ("udp", 9),
        ("udp6", 9),
        ("unix", 6),
    ];
    let mut living = BTreeSet::new();
    for (table, place) in tables {
        let path = format!("/proc/net/{table}");
        // There is no table of a family that the kernel does not have.
        let text = fs::read_to_string(path).unwrap_or_default();
        let fields = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_ascii_whitespace().nth(place));
        living.extend(fields.filter_map(|inode| inode.parse::<u64>().ok()));
    }
    living
}

/// The relay's side of a connection.
#[derive(Debug, PartialEq, Eq)]
struct Connection {
    peer: u16,
    established: bool,
    unsent: u64,
    inode: u64,
}

fn connections_to(port: u16) -> impl Iterator<Item = Connection> {
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux");
    let found: Vec<_> = table
        .lines()
        .skip(1)
        .filter_map(|line| connection_to(port, line))
        .collect();
    found.into_iter()
}

fn connection_to(port: u16, line: &str) -> Option<Connection> {
    let fields: Vec<_> = line.split_ascii_whitespace().collect();
    let [_, local, remote, state, queues, _, _, _, _, inode, ..] = fields[..] else {
        return None;
    };
    let port_of = |address: &str| {
        let (_, port) = address.split_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    (port_of(local)? == port && state != LISTENING).then_some(Connection {
        peer: port_of(remote)?,
        established: state == ESTABLISHED,
        unsent: u64::from_str_radix(queues.split_once(':')?.0, 16).ok()?,
        inode: inode.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_read_as_the_kernel_writes_them() {
        let line = "   1: 0100007F:1F90 0100007F:D2F0 01 00000A00:00000000 00:00000000 00000000  \
                    1000        0 12345 1 0000000000000000 20 4 30 10 -1";
        let connection = Connection {
            peer: 0xD2F0,
            established: true,
            unsent: 0xA00,
            inode: 12345,
        };
        assert_eq!(connection_to(0x1F90, line), Some(connection));
        assert_eq!(connection_to(0x1F91, line), None);
        assert_eq!(
            connection_to(0x1F90, &line.replace(" 01 ", " 0A ")),
            None,
            "the listener is nobody's connection"
        );
        assert_eq!(socket_inode(Path::new("socket:[7]")), Some(7));
        assert_eq!(socket_inode(Path::new("/dev/null")), None);
    }

    #[test]
    fn the_descriptors_of_this_process_are_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (_accepted, peer) = listener.accept().unwrap();
        let held: BTreeSet<u64> = descriptors(std::process::id()).flatten().collect();
        let found: Vec<_> = connections_to(port).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].peer, peer.port());
        let inode = found[0].inode;
        assert!(found[0].established && held.contains(&inode));
        assert!(living_sockets().contains(&inode));

        // Reset, the connection is gone, but our descriptor of it is not.
        let linger = Some(std::time::Duration::ZERO);
        socket2::SockRef::from(&client).set_linger(linger).unwrap();
        drop(client);
        while living_sockets().contains(&inode) {}
        let held: BTreeSet<u64> = descriptors(std::process::id()).flatten().collect();
        assert!(held.contains(&inode));
    }
}
