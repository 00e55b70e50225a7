//! The HTTP calls beside the device socket (section 11): devices register and are listed, users make
//! API keys, and the world asks whether the relay is well.

pub(crate) mod body;
mod caller;
mod change_device;
mod devices;
mod forget_device;
mod health;
mod keys;
mod logout;
pub(crate) mod openapi;
mod push_token;
mod register_desktop;
mod register_phone;
mod registered;
pub(crate) mod schemas;
mod text;

use std::sync::Arc;

use actix_web::web;
use relay_actors::Relay;
use relay_actors::environment::Environment;

use crate::authentication::Authenticator;
use crate::endpoint::Endpoint;

pub use openapi::description;

/// What the calls work with.
#[derive(Clone)]
pub struct DeviceApi {
    /// The relay behind the door.
    pub relay: Relay,
    /// Who may call.
    pub authenticator: Authenticator,
    /// Where new API keys get their ids and times from.
    pub environment: Arc<dyn Environment>,
}

impl DeviceApi {
    /// Adds the calls to an App.
    pub fn routes(&self, config: &mut web::ServiceConfig) {
        self.add(endpoints(), config);
    }

    /// Adds only the calls that a supervisor asks (OP-8), to the App of another listener.
    pub fn health_routes(&self, config: &mut web::ServiceConfig) {
        self.add(health_endpoints(), config);
    }

    fn add(&self, endpoints: Vec<Endpoint>, config: &mut web::ServiceConfig) {
        config.app_data(web::Data::new(self.clone()));
        for endpoint in endpoints {
            config.service(endpoint.into_resource());
        }
    }
}

/// Every path that the API serves. A test holds it against the published description.
fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = vec![
        Endpoint::at("/api/devices/register").post(register_desktop::register),
        Endpoint::at("/api/devices/mobile/register").post(register_phone::register),
        Endpoint::at("/api/devices").get(devices::list),
        Endpoint::at("/api/devices/push-token")
            .put(push_token::set)
            .delete(push_token::remove),
        // Behind the paths that it would match too.
        Endpoint::at("/api/devices/{id}")
            .patch(change_device::change)
            .delete(forget_device::forget),
        Endpoint::at("/api/auth/logout").post(logout::logout),
        Endpoint::at("/api/keys").get(keys::list).post(keys::create),
        Endpoint::at("/api/keys/{id}").delete(keys::revoke),
        Endpoint::at("/api/openapi.json").get(openapi::serve),
        Endpoint::at("/api/version").get(health::version),
    ];
    endpoints.extend(health_endpoints());
    endpoints
}

fn health_endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::at("/healthz").get(health::alive),
        Endpoint::at("/readyz").get(health::ready),
    ]
}
