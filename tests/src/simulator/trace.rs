//! What happened in a run, entry by entry: all that the devices did and heard, and what the relay
//! said of its own state. The oracle judges a trace and nothing else, so a trace can also be made up.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use relay_actors::socket::SocketState;
use relay_actors::{PairState, RelayState};
use relay_model::store::DeviceStatus;

use super::cast::{AccountNo, DeviceNo};
use super::frames::{Heard, Said};
use super::weather::Weather;

/// A connection, by its place in the order of their openings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionNo(pub usize);

impl fmt::Display for ConnectionNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When, since the beginning of the run.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// How a device ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// By the close handshake.
    Close,
    /// By the end of the stream alone.
    EndOfStream,
    /// By a reset.
    Reset,
}

/// How a user takes devices away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Forgets one (PR-4).
    Forget,
    /// Signs out on one or all of the account (SES-2).
    SignOut,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A device opened a connection.
    Opened(ConnectionNo, DeviceNo),
    /// A device said something. The frame is on its way from here on.
    Sent(ConnectionNo, Said),
    /// A device heard something; the number stands for the bytes of the frame.
    Heard(ConnectionNo, Heard, u64),
    /// A device stopped reading.
    Stalled(ConnectionNo),
    /// It reads again.
    ReadsAgain(ConnectionNo),
    /// A device vanished without a word: it reads and says nothing any more.
    Vanished(ConnectionNo),
    /// A device ended its connection.
    Left(ConnectionNo, Leaving),
    /// A user began to take devices away.
    Removing(Removal, Vec<DeviceNo>),
    /// The relay answered: it is done, or it may be.
    Removed(Removal, Vec<DeviceNo>, bool),
    /// A user began to let a forgotten device rejoin.
    Rejoining(DeviceNo),
    /// The relay answered: it may come back, or it may not yet.
    Rejoined(DeviceNo, bool),
    /// The database does better or worse.
    Weather(Weather),
    /// The relay was told to stop.
    StopBegan,
    /// It has stopped.
    Stopped,
    /// What the directory knows of an account's devices, each with the time since when.
    Live(AccountNo, Vec<(DeviceNo, DeviceStatus, Duration)>),
    /// What the device API shows of an account's devices.
    Listed(AccountNo, Vec<(DeviceNo, DeviceStatus)>),
    /// What a device's row says.
    Row(DeviceNo, DeviceStatus),
    /// What a desktop's registry holds, if there is one.
    Pair(DeviceNo, Option<PairState>),
    /// What a device's connection holds, if it has a route.
    Socket(DeviceNo, Option<Box<SocketState>>),
    /// What the relay holds.
    State(Box<RelayState>),
    /// An actor that everything depends on panicked.
    Fatal(String),
    /// Nothing more happens at this instant. The probes since the last such entry are of now.
    Quiet,
    /// All faults are off and all that they began is over.
    Calm,
    /// All devices have left and all timers have passed.
    Deserted,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>11.3} ", self.at.as_secs_f64())?;
        match &self.what {
            What::Opened(connection, device) => write!(f, "{connection} opened by {device}"),
            What::Sent(connection, said) => write!(f, "{connection} > {said}"),
            What::Heard(connection, heard, digest) => {
                write!(f, "{connection} < {heard} [{digest:016x}]")
            }
            What::Stalled(connection) => write!(f, "{connection} stops reading"),
            What::ReadsAgain(connection) => write!(f, "{connection} reads again"),
            What::Vanished(connection) => write!(f, "{connection} vanishes"),
            What::Left(connection, how) => write!(f, "{connection} leaves: {how:?}"),
            other => write!(f, "  {other:?}"),
        }
    }
}

/// A number that two traces share only if they are the same to the byte.
pub fn digest(trace: &[Entry]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entry in trace {
        entry.to_string().hash(&mut hasher);
    }
    hasher.finish()
}

/// A number for the bytes of a frame.
pub fn digest_of_frame(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
