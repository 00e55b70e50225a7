//! The door of the device relay: what a connection meets before an actor does (upgrade,
//! credentials, device API), and how the process is configured, started and stopped.

pub mod admin_api;
pub mod allowed_origins;
pub mod authentication;
pub mod client_address;
pub mod command_line;
pub mod configuration;
pub mod configured_file;
mod connect_limit;
pub mod device_api;
mod device_headers;
mod doctor;
mod endpoint;
mod entrance;
pub mod exit;
pub mod figures;
mod logging;
mod open_files;
pub mod push;
pub mod refusal;
mod reload;
mod runtime;
pub mod serve;
pub mod server;
mod socket_options;
pub mod system_environment;
pub mod tls;
pub mod traces;
pub mod upgrade;
