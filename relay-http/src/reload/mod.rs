//! SIGHUP (OP-4): the configuration is read again from where it was read at the start, and what may
//! change in a running relay changes. Each file is judged on its own: one that cannot be used is refused
//! with a log line, and what was read of it before stays in force.

mod changes;

use std::sync::Arc;

use relay_actors::Relay;
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;

use crate::authentication::PublicKeys;
use crate::configuration::{Configuration, ConfigurationError, Settings, Sources};
use crate::logging;
use crate::tls::Tls;
use changes::Changes;

/// Reloads a running relay.
pub(crate) struct Reloader {
    /// Where the configuration was read from.
    pub(crate) sources: Sources,
    /// What is in force.
    pub(crate) running: Settings,
    pub(crate) relay: Relay,
    /// The public keys of user tokens, if there are any.
    pub(crate) public_keys: Option<PublicKeys>,
    /// The certificate of the device listener, if it has one.
    pub(crate) tls: Option<Tls>,
}

impl Reloader {
    /// Reloads at every hangup, one after the other, for ever. Those that come during a reload are one.
    pub(crate) async fn run(mut self, mut hangups: Signal) {
        while hangups.recv().await.is_some() {
            self.reload().await;
        }
    }

    async fn reload(&mut self) {
        if let Some(public_keys) = &self.public_keys {
            // It says in the log what it finds.
            public_keys.reload();
        }
        if let Some(tls) = self.tls.clone() {
            reload_certificate(tls).await;
        }
        let sources = self.sources.clone();
        match spawn_blocking(|| Configuration::load(sources)).await {
            Ok(Ok(configuration)) => self.apply(&configuration),
            Ok(Err(error)) => refuse(&error),
            // The process is stopping.
            Err(_) => {}
        }
    }

    fn apply(&mut self, configuration: &Configuration) {
        let Changes {
            settings,
            changed,
            needs_restart,
        } = Changes::between(&self.running, &configuration.settings);
        if settings.limits != self.running.limits {
            self.relay.set_limits(Arc::new(settings.limits.clone()));
        }
        let tell = || tracing::info!(changed = changed.join(", "), "reloaded the configuration");
        // Under whichever of the two log levels lets it through.
        let is_heard = tracing::enabled!(tracing::Level::INFO);
        if is_heard {
            tell();
        }
        if settings.log_level != self.running.log_level {
            logging::set_level(&settings.log_level);
        }
        if !is_heard {
            tell();
        }
        self.running = settings;
        if !needs_restart.is_empty() {
            tracing::warn!(
                keys = needs_restart.join(", "),
                "changed in the configuration and needs a restart"
            );
        }
    }
}

async fn reload_certificate(tls: Tls) {
    let reload = {
        let tls = tls.clone();
        move || tls.reload()
    };
    match spawn_blocking(reload).await {
        Ok(Ok(())) => {
            let ends = tls.ends().map(tracing::field::display);
            tracing::info!(ends, "reloaded the TLS certificate");
        }
        Ok(Err(error)) => tracing::error!(
            problem = %error,
            "the TLS files cannot be used; the certificate in force stays"
        ),
        // The process is stopping.
        Err(_) => {}
    }
}

/// Says in one line everything that is wrong.
fn refuse(error: &ConfigurationError) {
    let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    tracing::error!(
        problems = problems.join("; "),
        "the configuration cannot be used; the running values stay"
    );
}
