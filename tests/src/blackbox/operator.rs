//! The admin API as whoever operates the relay calls it.

use reqwest::Method;
use serde_json::Value;

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
}
