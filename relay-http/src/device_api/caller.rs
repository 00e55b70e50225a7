//! Who calls: the account of the credentials, whether they allow the call, and the device that the
//! headers name.

use std::pin::Pin;

use actix_http::Method;
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use relay_model::credentials::{Credentials, Scope};
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::DeviceType;

use super::DeviceApi;
use crate::authentication::Identity;
use crate::device_headers::{CLIENT_TYPE, DEVICE_ID, client_type, client_type_name, single};
use crate::refusal::Refusal;

type Extraction<T> = Pin<Box<dyn Future<Output = Result<T, Refusal>>>>;

/// What `of` makes of the request, which it may look at for as long as that takes.
fn extraction<T: 'static>(
    request: &HttpRequest,
    of: impl AsyncFnOnce(&HttpRequest) -> Result<T, Refusal> + 'static,
) -> Extraction<T> {
    let request = request.clone();
    Box::pin(async move { of(&request).await })
}

/// A caller whose credentials are valid and allow the call (HTTP-4). As an argument of a handler it
/// stands first, so that nothing else is said to a caller without.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    pub(super) account: AccountId,
}

impl Caller {
    async fn of(request: &HttpRequest) -> Result<Self, Refusal> {
        let account = allowed(request).await?;
        Ok(Self { account })
    }
}

impl FromRequest for Caller {
    type Error = Refusal;
    type Future = Extraction<Self>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        extraction(request, Self::of)
    }
}

/// A signed-in user: an API key, whatever its scopes, may not make or end credentials (HTTP-4).
#[derive(Debug, Clone, Copy)]
pub(super) struct CallingUser {
    pub(super) account: AccountId,
}

impl CallingUser {
    async fn of(request: &HttpRequest) -> Result<Self, Refusal> {
        let identity = identify(request).await?;
        match identity.credentials {
            Credentials::UserToken { .. } => Ok(Self {
                account: identity.account,
            }),
            Credentials::ApiKey { .. } => Err(Refusal::Forbidden(
                "this call takes a user's token, not an API key",
            )),
        }
    }
}

impl FromRequest for CallingUser {
    type Error = Refusal;
    type Future = Extraction<Self>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        extraction(request, Self::of)
    }
}

/// A caller that registers the desktop that its headers name.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallingDesktop {
    pub(super) account: AccountId,
    pub(super) device: DeviceId,
}

impl CallingDesktop {
    async fn of(request: &HttpRequest) -> Result<Self, Refusal> {
        let (account, device) = calling_device(request, DeviceType::Desktop).await?;
        Ok(Self { account, device })
    }
}

impl FromRequest for CallingDesktop {
    type Error = Refusal;
    type Future = Extraction<Self>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        extraction(request, Self::of)
    }
}

/// A caller that registers the phone that its headers name.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallingPhone {
    pub(super) account: AccountId,
    pub(super) device: DeviceId,
}

impl CallingPhone {
    async fn of(request: &HttpRequest) -> Result<Self, Refusal> {
        let (account, device) = calling_device(request, DeviceType::Mobile).await?;
        Ok(Self { account, device })
    }
}

impl FromRequest for CallingPhone {
    type Error = Refusal;
    type Future = Extraction<Self>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        extraction(request, Self::of)
    }
}

/// A caller that speaks of the device that `X-Device-ID` names.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallingDevice {
    pub(super) account: AccountId,
    pub(super) device: DeviceId,
}

impl CallingDevice {
    async fn of(request: &HttpRequest) -> Result<Self, Refusal> {
        let account = allowed(request).await?;
        let device = named_device(request)?;
        Ok(Self { account, device })
    }
}

impl FromRequest for CallingDevice {
    type Error = Refusal;
    type Future = Extraction<Self>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        extraction(request, Self::of)
    }
}

async fn calling_device(
    request: &HttpRequest,
    expected: DeviceType,
) -> Result<(AccountId, DeviceId), Refusal> {
    let account = allowed(request).await?;
    let headers = request.headers();
    if single(headers, CLIENT_TYPE).and_then(client_type) != Some(expected) {
        return Err(Refusal::InvalidClientType {
            expected: client_type_name(expected),
        });
    }
    let device = named_device(request)?;
    Ok((account, device))
}

/// The device that `X-Device-ID` names.
pub(super) fn named_device(request: &HttpRequest) -> Result<DeviceId, Refusal> {
    single(request.headers(), DEVICE_ID)
        .and_then(|text| text.parse().ok())
        .ok_or(Refusal::InvalidDeviceId)
}

/// The account of a caller whose credentials allow the call: `read` for what changes nothing,
/// `write` for the rest.
async fn allowed(request: &HttpRequest) -> Result<AccountId, Refusal> {
    let identity = identify(request).await?;
    let (scope, refusal) = if [Method::GET, Method::HEAD].contains(request.method()) {
        (
            Scope::Read,
            "this call takes an API key with the scope read",
        )
    } else {
        (
            Scope::Write,
            "this call takes an API key with the scope write",
        )
    };
    if identity.credentials.allow(scope) {
        Ok(identity.account)
    } else {
        Err(Refusal::Forbidden(refusal))
    }
}

async fn identify(request: &HttpRequest) -> Result<Identity, Refusal> {
    // The routes and their state are added together, so it is always there.
    let api = request
        .app_data::<web::Data<DeviceApi>>()
        .ok_or(Refusal::RelayUnavailable)?;
    Ok(api.authenticator.identify(request.headers()).await?)
}
