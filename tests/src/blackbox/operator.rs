//! The admin API as whoever operates the relay calls it.

use reqwest::Method;
use serde_json::Value;

use super::account::{Account, Device};
use super::api::HttpAnswer;
use super::process::Relay;

/// `admin.token` of relays that have one.
pub const OPERATOR_TOKEN: &str = "an-operator-token-for-tests-only";

impl Relay {
    /// A relay with an operator token, some settings changed, and an empty database.
    pub async fn start_operated(settings: &[(&str, &str)]) -> Self {
        let settings = [&[("admin.token", OPERATOR_TOKEN)], settings].concat();
        Self::start_with(&settings).await
    }

    /// A call of the admin API by the operator.
    pub async fn operate(&self, method: Method, path: &str, body: Option<Value>) -> HttpAnswer {
        let authorization = format!("Bearer {OPERATOR_TOKEN}");
        let headers = [("Authorization", authorization.as_str())];
        let body = body.map(|body| body.to_string());
        self.call_at(self.admin_address(), method, path, &headers, body)
            .await
    }

    /// What the relay says that it holds.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn state(&self) -> Value {
        let answer = self.operate(Method::GET, "/admin/state", None).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// The account as its operator sees it.
    pub async fn view_account(&self, account: &Account) -> HttpAnswer {
        let path = format!("/admin/accounts/{}", account.id);
        self.operate(Method::GET, &path, None).await
    }

    /// A device as its operator sees it; `None` if nothing is known of it.
    pub async fn view(&self, device: &Device) -> Option<Value> {
        let answer = self.view_account(&device.account).await;
        let devices = answer.body["devices"].as_array()?;
        let found = devices.iter().find(|view| view["deviceId"] == device.id);
        found.cloned()
    }

    /// Waits until what the operator sees of a device is as wanted, and returns it.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn view_when(
        &self,
        device: &Device,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("{what} of {}", device.id);
        self.eventually(&what, async || {
            self.view(device).await.is_some_and(|view| wanted(&view))
        })
        .await;
        self.view(device).await.expect("it was just there")
    }
}
