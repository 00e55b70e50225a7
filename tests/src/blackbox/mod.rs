//! The built `relay` as its users meet it: a process with a database of its own, devices that talk
//! to it over real sockets, and waits that end with everything that was seen when they fail.
//!
//! ```no_run
//! # async fn example() {
//! use relay_tests::blackbox::{Account, Relay};
//! use serde_json::json;
//!
//! let relay = Relay::start().await;
//! let account = Account::new();
//! let mut desktop = relay.desktop(&account).await;
//! let mut phone = relay.phone(&desktop.device).await;
//! phone.request("r1", "session.list", json!({})).await;
//! let request = desktop.next_request().await;
//! desktop.answer(&request, json!([])).await;
//! assert_eq!(phone.next_response().await["result"], json!([]));
//! # }
//! ```

mod account;
mod api;
mod backend;
mod binary;
mod database;
mod database_proxy;
mod description;
mod evidence;
mod figures;
mod footprint;
mod frame;
mod identity_provider;
mod leaks;
mod length;
mod operator;
mod process;
mod raw;
mod raw_frame;
mod rpc;
mod socket;
mod switch;
mod timeline;
mod token;
mod trace_collector;
mod trust;

use std::time::Duration;

pub use account::{Account, ClientType, Device, fresh_id};
pub use api::HttpAnswer;
pub use backend::Backend;
pub use binary::relay_binary;
pub use database::{Database, Dump};
pub use database_proxy::{DatabaseProxy, Network};
pub use description::conforms;
pub use evidence::Evidence;
pub use figures::Figures;
pub use footprint::OTHER_FILES;
pub use frame::{Frame, is_time};
pub use identity_provider::{Behaviour, IdentityProvider, SigningKey, key_set};
pub use length::{by_length, is_long};
pub use operator::OPERATOR_TOKEN;
pub use process::{Relay, SECRET, Site};
pub use raw::RawSocket;
pub use raw_frame::{OpCode, RawFrame, encode, header};
pub use rpc::{failure, pending, rpc_request, rpc_response};
pub use socket::Socket;
pub use switch::Switch;
pub use timeline::{interest, snapshot, snapshot_payload};
pub use token::{Claims, mint};
pub use trace_collector::{TraceCollector, hex};
pub use trust::Trust;

/// How long a test waits for what must happen. Long, because it is only used up by a failure.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How long a condition that has no event of its own is left alone between two looks at it.
pub const LOOK_AGAIN: Duration = Duration::from_millis(10);
