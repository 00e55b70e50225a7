//! The headers by which a device names itself, on the upgrade (TR-2) and on the device API.

use actix_http::header::HeaderMap;
use relay_model::store::DeviceType;

/// Phone or desktop.
pub(crate) const CLIENT_TYPE: &str = "x-client-type";
/// The device's UUID.
pub(crate) const DEVICE_ID: &str = "x-device-id";
/// The UUID of the desktop that a phone talks to.
pub(crate) const TARGET_DESKTOP: &str = "x-target-desktop-device-id";

/// The text of a header that was sent exactly once.
pub(crate) fn single<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name);
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok().map(str::trim)
}

/// The client type of this name.
pub(crate) fn client_type(name: &str) -> Option<DeviceType> {
    [DeviceType::Desktop, DeviceType::Mobile]
        .into_iter()
        .find(|device_type| client_type_name(*device_type) == name)
}

/// The name of a client type, as `X-Client-Type` and `deviceType` spell it.
pub(crate) const fn client_type_name(device_type: DeviceType) -> &'static str {
    match device_type {
        DeviceType::Desktop => "desktop",
        DeviceType::Mobile => "mobile",
    }
}
