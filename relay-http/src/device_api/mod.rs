//! The HTTP calls beside the device socket (section 11): devices register and are listed, users make
//! API keys, and the world asks whether the relay is well.

mod body;
mod caller;
mod devices;
mod health;
mod keys;
mod register_desktop;
mod register_phone;
mod text;

use std::sync::Arc;

use actix_web::guard::{self, Guard};
use actix_web::{FromRequest, Handler, HttpResponse, Resource, Responder, Route, web};
use relay_actors::Relay;

use relay_actors::environment::Environment;

use crate::authentication::Authenticator;
use crate::refusal::Refusal;

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
        config
            .app_data(web::Data::new(self.clone()))
            .service(post("/api/devices/register", register_desktop::register))
            .service(post(
                "/api/devices/mobile/register",
                register_phone::register,
            ))
            .service(get("/api/devices", devices::list))
            .service(
                web::resource("/api/keys")
                    .route(web::post().to(keys::create))
                    .route(web::route().guard(reading()).to(keys::list))
                    .default_service(refuse_method("GET, HEAD, POST")),
            )
            .service(
                web::resource("/api/keys/{id}")
                    .route(web::delete().to(keys::revoke))
                    .default_service(refuse_method("DELETE")),
            )
            .service(get("/api/version", health::version))
            .service(get("/healthz", health::alive))
            .service(get("/readyz", health::ready));
    }
}

fn post<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    resource(path, "POST", guard::Post(), handler)
}

/// HEAD is served too: health checks of load balancers ask so.
fn get<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    resource(path, "GET, HEAD", reading(), handler)
}

fn reading() -> impl Guard {
    guard::Any(guard::Get()).or(guard::Head())
}

fn refuse_method(allow: &'static str) -> Route {
    web::to(move || async move { Err::<HttpResponse, _>(Refusal::MethodNotAllowed { allow }) })
}

fn resource<F, Args>(
    path: &str,
    allow: &'static str,
    method: impl Guard + 'static,
    handler: F,
) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    web::resource(path)
        .route(web::route().guard(method).to(handler))
        .default_service(refuse_method(allow))
}
