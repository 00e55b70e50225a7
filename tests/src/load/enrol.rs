//! Makes the load's devices rows of the relay's database, over HTTP as apps do it: a device
//! registers there before it connects.

use relay_model::store::DeviceType;
use reqwest::Client;
use serde_json::json;

use super::client::Endpoint;
use super::devices::{Device, Pair};
use super::error::LoadError;
use super::fleet;

/// Pairs enrolled at a time.
const AT_ONCE: usize = 16;

/// Enrols the first `pairs` pairs, and so many phones of the first one's desktop; devices that are
/// rows already stay what they are.
///
/// # Errors
/// The first device that the relay refuses.
pub async fn enrol(endpoint: &Endpoint, pairs: usize, phones: usize) -> Result<(), LoadError> {
    let client = Client::builder()
        .no_proxy()
        .build()
        .map_err(|error| LoadError::Enrol(error.to_string()))?;
    let endpoint = endpoint.clone();
    let of_pairs = (0..pairs)
        .map(Pair)
        .flat_map(|pair| [pair.desktop(), pair.phone()]);
    let more_phones = (1..phones).map(|number| Pair(0).nth_phone(number));
    fleet::for_each(of_pairs.chain(more_phones), AT_ONCE, move |device| {
        let (client, endpoint) = (client.clone(), endpoint.clone());
        async move { register(&client, &endpoint, device).await }
    })
    .await?;
    Ok(())
}

async fn register(client: &Client, endpoint: &Endpoint, device: Device) -> Result<(), LoadError> {
    let token = endpoint.credentials.token(device.pair)?;
    let (path, platform) = match device.device_type() {
        DeviceType::Desktop => ("/api/devices/register", "linux"),
        DeviceType::Mobile => ("/api/devices/mobile/register", "android"),
    };
    let body = json!({ "deviceName": "load", "platform": platform, "appVersion": "1.0.0" });
    let answer = client
        .post(format!("http://{}{path}", endpoint.address))
        .bearer_auth(token)
        .header("X-Device-ID", device.id().to_string())
        .header("X-Client-Type", device.client_type())
        .json(&body)
        .send()
        .await
        .map_err(|error| LoadError::Enrol(error.to_string()))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let problem = answer.text().await.unwrap_or_default();
    Err(LoadError::Enrol(format!(
        "{path} answered {status}: {problem}"
    )))
}
