//! The users and devices of a test: made up on the spot, so that no test meets another's.

use serde_json::{Value, json};
use uuid::Uuid;

use super::token::mint;

/// A UUID that nothing else uses.
#[allow(
    clippy::disallowed_methods,
    reason = "black-box tests run on real time and real randomness"
)]
pub fn fresh_id() -> String {
    Uuid::new_v4().to_string()
}

/// A user.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its UUID.
    pub id: String,
    /// A valid user token of it.
    pub token: String,
}

impl Account {
    /// A user that no relay has seen.
    #[expect(
        clippy::new_without_default,
        reason = "each call makes another account"
    )]
    pub fn new() -> Self {
        let id = fresh_id();
        let token = mint(&id);
        Self { id, token }
    }

    /// A desktop of this user that no relay has seen.
    pub fn new_desktop(&self) -> Device {
        self.new_device(ClientType::Desktop, None)
    }

    /// A phone of this user that no relay has seen, without a target.
    pub fn new_phone(&self) -> Device {
        self.new_device(ClientType::Mobile, None)
    }

    fn new_device(&self, client_type: ClientType, target: Option<String>) -> Device {
        Device {
            account: self.clone(),
            id: fresh_id(),
            client_type,
            target,
        }
    }
}

/// `X-Client-Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientType {
    /// A desktop.
    Desktop,
    /// A phone.
    Mobile,
}

impl ClientType {
    /// As it stands in the header.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Mobile => "mobile",
        }
    }
}

/// A device, whether connected or not.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its user.
    pub account: Account,
    /// Its UUID.
    pub id: String,
    /// What it is.
    pub client_type: ClientType,
    /// The desktop that a phone works with.
    pub target: Option<String>,
}

impl Device {
    /// The same phone with `desktop` as its target.
    pub fn targeting(mut self, desktop: &Self) -> Self {
        self.target = Some(desktop.id.clone());
        self
    }

    /// The payload of its `register` frame.
    pub fn registration(&self) -> Value {
        let mut payload = json!({
            "deviceId": self.id,
            "deviceName": "test",
            "relayProtocolVersion": 1,
        });
        if let Some(target) = &self.target {
            payload["targetDesktopDeviceId"] = json!(target);
        }
        payload
    }

    /// The headers of its upgrade request.
    pub fn upgrade_headers(&self) -> Vec<(String, String)> {
        vec![
            (
                "Authorization".to_owned(),
                format!("Bearer {}", self.account.token),
            ),
            (
                "X-Client-Type".to_owned(),
                self.client_type.header().to_owned(),
            ),
            ("X-Device-ID".to_owned(), self.id.clone()),
        ]
    }
}
