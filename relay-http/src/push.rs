//! The push services as they are configured (PUSH-1): their files are read and checked at the start,
//! so that a mistake shows then and not when the first phone is to be woken.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relay_actors::environment::Environment;
use relay_actors::push::apns::{ApnsError, ApnsSender, ApnsSettings};
use relay_actors::push::fcm::{FcmError, FcmSender, FcmSettings};
use relay_actors::push::{PushSender, PushServices};

use crate::configuration::{Configuration, Origin};

/// A file of a push service that cannot be used. No line of it is shown.
#[derive(Debug, thiserror::Error)]
#[error("{key} = {} ({origin}): {reason}", .path.display())]
pub struct PushError {
    /// The key of the configuration.
    key: &'static str,
    /// The file.
    path: PathBuf,
    /// Where it was configured.
    origin: Origin,
    /// What is wrong.
    reason: String,
}

/// The services that are configured; the others are off.
///
/// # Errors
/// When a file cannot be read or used.
pub fn services(
    configuration: &Configuration,
    environment: &Arc<dyn Environment>,
) -> Result<PushServices, PushError> {
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

/// The files of the configuration.
struct Files<'c>(&'c Configuration);

impl Files<'_> {
    fn unusable(&self, key: &'static str, path: &Path, reason: impl ToString) -> PushError {
        PushError {
            key,
            path: path.to_owned(),
            origin: self.0.origin(key),
            reason: reason.to_string(),
        }
    }

    fn text(&self, key: &'static str, path: &Path) -> Result<String, PushError> {
        fs::read_to_string(path).map_err(|error| self.unusable(key, path, error))
    }

    fn bytes(
        &self,
        key: &'static str,
        path: Option<&PathBuf>,
    ) -> Result<Option<Vec<u8>>, PushError> {
        let read = |path: &PathBuf| fs::read(path).map_err(|error| self.unusable(key, path, error));
        path.map(read).transpose()
    }
}

fn apns(
    configuration: &Configuration,
    environment: &Arc<dyn Environment>,
) -> Result<Option<Arc<dyn PushSender>>, PushError> {
    let keys = &configuration.settings.push.apns;
    let Some(key_file) = &keys.key_file else {
        return Ok(None);
    };
    let files = Files(configuration);
    let unusable = |reason: &str| files.unusable("push.apns.key_file", key_file, reason);
    let (Some(endpoint), Some(sandbox_endpoint)) =
        (keys.endpoint.url(), keys.sandbox_endpoint.url())
    else {
        return Err(unusable("the endpoint is no URL"));
    };
    let settings = ApnsSettings {
        key: files.text("push.apns.key_file", key_file)?,
        // The configuration is refused without these.
        key_id: keys.key_id.clone().unwrap_or_default(),
        team_id: keys.team_id.clone().unwrap_or_default(),
        topic: keys.topic.clone().unwrap_or_default(),
        endpoint,
        sandbox_endpoint,
        authorities: files.bytes("push.apns.ca_file", keys.ca_file.as_ref())?,
    };
    match ApnsSender::new(settings, Arc::clone(environment)) {
        Ok(sender) => Ok(Some(Arc::new(sender))),
        Err(error @ ApnsError::Authorities) => {
            let path = keys.ca_file.as_deref().unwrap_or(key_file);
            Err(files.unusable("push.apns.ca_file", path, error))
        }
        Err(error) => Err(unusable(&error.to_string())),
    }
}

fn fcm(
    configuration: &Configuration,
    environment: &Arc<dyn Environment>,
) -> Result<Option<Arc<dyn PushSender>>, PushError> {
    let keys = &configuration.settings.push.fcm;
    let Some(key_file) = &keys.service_account_file else {
        return Ok(None);
    };
    let files = Files(configuration);
    let key = "push.fcm.service_account_file";
    let Some(endpoint) = keys.endpoint.url() else {
        return Err(files.unusable(key, key_file, "the endpoint is no URL"));
    };
    let settings = FcmSettings {
        service_account: files.text(key, key_file)?,
        endpoint,
        authorities: files.bytes("push.fcm.ca_file", keys.ca_file.as_ref())?,
    };
    match FcmSender::new(settings, Arc::clone(environment)) {
        Ok(sender) => Ok(Some(Arc::new(sender))),
        Err(error @ FcmError::Authorities) => {
            let path = keys.ca_file.as_deref().unwrap_or(key_file);
            Err(files.unusable("push.fcm.ca_file", path, error))
        }
        Err(error) => Err(files.unusable(key, key_file, error)),
    }
}
