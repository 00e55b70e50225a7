//! The calls of whoever operates the relay (section 11, OP-9): what it holds, why a device is offline,
//! and what it should do. They take the operator token, and are there only if one is configured.

mod account;
mod drain;
mod explanation;
mod openapi;
mod operator;
mod policy;
mod state;

use actix_web::web;
use relay_actors::Relay;

use crate::configuration::Secret;
use crate::endpoint::Endpoint;
use operator::OperatorToken;

pub(crate) use drain::Drain;
pub use explanation::{offline_reason, refusal};
pub use openapi::description;
pub use operator::OperatorError;
pub(crate) use state::State;

/// What the calls work with.
#[derive(Clone)]
pub struct AdminApi {
    relay: Relay,
    token: OperatorToken,
}

impl AdminApi {
    /// The calls for `relay`, for whoever shows `token`.
    pub fn new(relay: Relay, token: &Secret) -> Self {
        let token = OperatorToken::new(token);
        Self { relay, token }
    }

    /// Adds the calls to an App that has those of [`DeviceApi`](crate::device_api::DeviceApi), or the
    /// health calls of it.
    pub fn routes(&self, config: &mut web::ServiceConfig) {
        config.app_data(web::Data::new(self.clone()));
        for endpoint in endpoints() {
            config.service(endpoint.into_resource());
        }
    }
}

/// Every path that the API serves. A test holds it against the description.
fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::at("/admin/drain").post(drain::begin),
        Endpoint::at("/admin/state").get(state::read),
        Endpoint::at("/admin/accounts/{id}").get(account::read),
        Endpoint::at("/admin/policy")
            .get(policy::read)
            .put(policy::change),
        Endpoint::at("/admin/openapi.json").get(openapi::serve),
    ]
}
