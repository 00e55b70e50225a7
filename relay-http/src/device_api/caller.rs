//! Who calls: the account of the credentials, and the device that the headers name.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::DeviceType;

use super::DeviceApi;
use crate::device_headers::{CLIENT_TYPE, DEVICE_ID, client_type, client_type_name, single};
use crate::refusal::Refusal;

/// A caller with valid credentials (HTTP-4). As an argument of a handler it stands first, so that
/// nothing else is said to a caller without.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    pub(super) account: AccountId,
}

impl FromRequest for Caller {
    type Error = Refusal;
    type Future = Ready<Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(caller(request).map(|(account, _)| Self { account }))
    }
}

/// A caller that registers the desktop that its headers name.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallingDesktop {
    pub(super) account: AccountId,
    pub(super) device: DeviceId,
}

impl FromRequest for CallingDesktop {
    type Error = Refusal;
    type Future = Ready<Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let caller = calling_device(request, DeviceType::Desktop);
        ready(caller.map(|(account, device)| Self { account, device }))
    }
}

/// A caller that registers the phone that its headers name.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallingPhone {
    pub(super) account: AccountId,
    pub(super) device: DeviceId,
}

impl FromRequest for CallingPhone {
    type Error = Refusal;
    type Future = Ready<Result<Self, Refusal>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let caller = calling_device(request, DeviceType::Mobile);
        ready(caller.map(|(account, device)| Self { account, device }))
    }
}

fn calling_device(
    request: &HttpRequest,
    expected: DeviceType,
) -> Result<(AccountId, DeviceId), Refusal> {
    let (account, headers) = caller(request)?;
    if single(headers, CLIENT_TYPE).and_then(client_type) != Some(expected) {
        return Err(Refusal::InvalidClientType {
            expected: client_type_name(expected),
        });
    }
    let device = single(headers, DEVICE_ID)
        .and_then(|text| text.parse().ok())
        .ok_or(Refusal::InvalidDeviceId)?;
    Ok((account, device))
}

fn caller(request: &HttpRequest) -> Result<(AccountId, &actix_http::header::HeaderMap), Refusal> {
    let headers = request.headers();
    // The routes and their state are added together, so it is always there.
    let api = request
        .app_data::<web::Data<DeviceApi>>()
        .ok_or(Refusal::RelayUnavailable)?;
    Ok((api.authenticator.account(headers)?, headers))
}
