//! Whether the push services take the relay's credentials (PUSH-1), tried with messages that reach
//! nobody.

use std::sync::Arc;

use relay_actors::environment::Environment;
use relay_actors::push::{PushCheck, PushServices};
use relay_model::push::PushPlatform;

use super::Finding;
use crate::configuration::Configuration;
use crate::push;
use crate::system_environment::SystemEnvironment;

pub(super) async fn look(configuration: &Configuration) -> Vec<Finding> {
    let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
    match push::services(configuration, &environment) {
        Ok(services) => tried(&services).await,
        Err(error) => vec![Finding::fail(
            "push",
            error.to_string(),
            "put the file there that the service's console gave out, or unset the key",
        )],
    }
}

async fn tried(services: &PushServices) -> Vec<Finding> {
    let mut findings: Vec<Finding> = services.check().await.into_iter().map(finding).collect();
    if services.are_off() {
        let detail = "off: neither push.apns.key_file nor push.fcm.service_account_file is set";
        findings.push(Finding::ok("push", detail));
    }
    findings
}

fn finding(check: PushCheck) -> Finding {
    let name = match check.platform {
        PushPlatform::Ios => "push to iOS",
        PushPlatform::Android => "push to Android",
    };
    match check.result {
        Ok(()) => Finding::ok(name, "the service takes the credentials"),
        Err(advice) => Finding::unavailable(name, "the service cannot be used", advice),
    }
}
