//! What credentials allow, and until when (EV-2, RPC-5, SES-6, HTTP-4). How they are checked is the
//! door's business.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::ids::ApiKeyId;
use crate::time::Timestamp;

/// One right of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Requests over the socket.
    Rpc,
    /// `GET` on the device API.
    Read,
    /// The other calls of the device API.
    Write,
}

impl Scope {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 3] = [Self::Rpc, Self::Read, Self::Write];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Rpc => 1,
            Self::Read => 2,
            Self::Write => 4,
        }
    }
}

/// A word that is no scope. It is not repeated: it may be a key in the wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a scope; allowed are rpc, read and write")]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let named = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        named.ok_or(UnknownScope)
    }
}

/// The rights of an API key. Written as `rpc,read,write`, in JSON as an array of names.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Every scope.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Whether `scope` is among them.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are there, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL
            .into_iter()
            .filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    /// Reads names between commas, in any order; spaces around them do not count, and the same name
    /// twice is once. An empty text has no scopes and is refused.
    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        text.split(',').map(|name| name.trim().parse()).collect()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, scope) in self.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            f.write_str(scope.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Scope::as_str))
    }
}

/// With what a caller or a connection was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials {
    /// A signed-in user's token.
    UserToken {
        /// Its `exp`, without the leeway.
        expires_at: Timestamp,
    },
    /// An API key of the user's.
    ApiKey {
        /// Which.
        id: ApiKeyId,
        /// Its rights.
        scopes: Scopes,
        /// When it ends by itself.
        expires_at: Option<Timestamp>,
    },
}

impl Credentials {
    /// Whether they allow `scope`: a user's token allows everything.
    pub const fn allow(&self, scope: Scope) -> bool {
        match self {
            Self::UserToken { .. } => true,
            Self::ApiKey { scopes, .. } => scopes.contains(scope),
        }
    }

    /// Whether they allow events: of a key all three scopes are asked (EV-2).
    pub fn allow_events(&self) -> bool {
        Scope::ALL.into_iter().all(|scope| self.allow(scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTTP-4: scopes are read in any order and written in one.
    #[test]
    fn scopes_are_read_and_written() {
        for (text, written) in [
            ("rpc", "rpc"),
            ("write, rpc", "rpc,write"),
            ("read,read", "read"),
            ("write,read,rpc", "rpc,read,write"),
        ] {
            let scopes: Scopes = text.parse().unwrap();
            assert_eq!(scopes.to_string(), written);
        }
        for text in ["", "admin", "rpc,", "RPC", "rpc read"] {
            assert_eq!(text.parse::<Scopes>(), Err(UnknownScope), "{text:?}");
        }
        let json = serde_json::to_string(&Scopes::all()).unwrap();
        assert_eq!(json, r#"["rpc","read","write"]"#);
    }

    /// EV-2: a user's token may always send events, a key with all three scopes only.
    #[test]
    fn events_take_every_scope() {
        let now = Timestamp::from_unix_micros(0);
        assert!(Credentials::UserToken { expires_at: now }.allow_events());
        for bits in 0..8 {
            let scopes = Scopes(bits);
            let key = Credentials::ApiKey {
                id: ApiKeyId::from_uuid(uuid::Uuid::nil()),
                scopes,
                expires_at: None,
            };
            assert_eq!(key.allow_events(), scopes == Scopes::all(), "{scopes:?}");
            assert_eq!(key.allow(Scope::Rpc), scopes.contains(Scope::Rpc));
        }
    }
}
