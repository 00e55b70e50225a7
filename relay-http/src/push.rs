//! The push services as they are configured (PUSH-1): their files are read and checked at the start,
//! so that a mistake shows then and not when the first phone is to be woken.

use std::path::PathBuf;
use std::sync::Arc;

use relay_actors::environment::Environment;
use relay_actors::push::apns::{ApnsError, ApnsSender, ApnsSettings};
use relay_actors::push::fcm::{FcmError, FcmSender, FcmSettings};
use relay_actors::push::{PushSender, PushServices};

use crate::configuration::Configuration;
use crate::configured_file::{ConfiguredFile, UnusableFile};

/// The services that are configured; the others are off.
///
/// # Errors
/// When a file cannot be read or used.
pub fn services(
    configuration: &Configuration,
    environment: &Arc<dyn Environment>,
) -> Result<PushServices, UnusableFile> {
    Ok(PushServices {
        apns: apns(configuration, environment)?,
        fcm: fcm(configuration, environment)?,
    })
}

/// Says once what is off, so that nobody has to wonder why a phone stays asleep.
pub(crate) fn log_what_is_off(services: &PushServices) {
    if services.apns.is_none() {
        tracing::info!("push to iOS is off: push.apns.key_file is not set");
    }
    if services.fcm.is_none() {
        tracing::info!("push to Android is off: push.fcm.service_account_file is not set");
    }
}

/// The authorities in a file, if one is configured.
fn authorities(file: Option<&ConfiguredFile>) -> Result<Option<Vec<u8>>, UnusableFile> {
    file.map(ConfiguredFile::bytes).transpose()
}

fn apns(
    configuration: &Configuration,
    environment: &Arc<dyn Environment>,
) -> Result<Option<Arc<dyn PushSender>>, UnusableFile> {
    let keys = &configuration.settings.push.apns;
    let Some(key_file) = &keys.key_file else {
        return Ok(None);
    };
    let file = |key, path: &PathBuf| ConfiguredFile::new(configuration, key, path);
    let key_file = file("push.apns.key_file", key_file);
    let ca_file = keys.ca_file.as_ref();
    let ca_file = ca_file.map(|path| file("push.apns.ca_file", path));
    let (Some(endpoint), Some(sandbox_endpoint)) =
        (keys.endpoint.url(), keys.sandbox_endpoint.url())
    else {
        return Err(key_file.unusable("the endpoint is no URL"));
    };
    let settings = ApnsSettings {
        key: key_file.text()?,
        // The configuration is refused without these.
        key_id: keys.key_id.clone().unwrap_or_default(),
        team_id: keys.team_id.clone().unwrap_or_default(),
        topic: keys.topic.clone().unwrap_or_default(),
        endpoint,
        sandbox_endpoint,
        authorities: authorities(ca_file.as_ref())?,
    };
    match ApnsSender::new(settings, Arc::clone(environment)) {
        Ok(sender) => Ok(Some(Arc::new(sender))),
        Err(error @ ApnsError::Authorities) => Err(ca_file.unwrap_or(key_file).unusable(error)),
        Err(error) => Err(key_file.unusable(error)),
    }
}

fn fcm(
    configuration: &Configuration,
    environment: &Arc<dyn Environment>,
) -> Result<Option<Arc<dyn PushSender>>, UnusableFile> {
    let keys = &configuration.settings.push.fcm;
    let Some(key_file) = &keys.service_account_file else {
        return Ok(None);
    };
    let file = |key, path: &PathBuf| ConfiguredFile::new(configuration, key, path);
    let key_file = file("push.fcm.service_account_file", key_file);
    let ca_file = keys.ca_file.as_ref();
    let ca_file = ca_file.map(|path| file("push.fcm.ca_file", path));
    let Some(endpoint) = keys.endpoint.url() else {
        return Err(key_file.unusable("the endpoint is no URL"));
    };
    let settings = FcmSettings {
        service_account: key_file.text()?,
        endpoint,
        authorities: authorities(ca_file.as_ref())?,
    };
    match FcmSender::new(settings, Arc::clone(environment)) {
        Ok(sender) => Ok(Some(Arc::new(sender))),
        Err(error @ FcmError::Authorities) => Err(ca_file.unwrap_or(key_file).unusable(error)),
        Err(error) => Err(key_file.unusable(error)),
    }
}
