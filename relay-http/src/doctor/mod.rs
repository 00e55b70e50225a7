//! What `relay doctor` looks at: everything that a relay of this configuration needs of the machine that
//! it runs on, one check after the other. A check is a function that gives its findings; a further one
//! joins the list in [`examine`].

mod addresses;
mod database;
mod machine;
mod push;
mod secrets;
mod tls;

use relay_actors::environment::Environment;
use serde::Serialize;

use crate::configuration::Configuration;
use crate::exit::ExitStatus;
use crate::system_environment::SystemEnvironment;

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Outcome {
    /// As it should be.
    Ok,
    /// A relay runs with it, and may be sorry later.
    Warn,
    /// A relay cannot run with it.
    Fail,
}

impl Outcome {
    /// Its word in the table.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What one look showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) name: &'static str,
    /// How well it is.
    pub(crate) outcome: Outcome,
    /// What was seen.
    pub(crate) detail: String,
    /// What to do about it, unless all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) what_to_do: Option<String>,
    /// With which code a failure ends the command.
    #[serde(skip)]
    pub(crate) status: ExitStatus,
}

impl Finding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            outcome: Outcome::Ok,
            detail: detail.into(),
            what_to_do: None,
            status: ExitStatus::Done,
        }
    }

    fn warn(name: &'static str, detail: impl Into<String>, what_to_do: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Warn,
            what_to_do: Some(what_to_do.into()),
            ..Self::ok(name, detail)
        }
    }

    /// Something of this machine or configuration that has to be changed.
    fn fail(name: &'static str, detail: impl Into<String>, what_to_do: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Fail,
            status: ExitStatus::Usage,
            ..Self::warn(name, detail, what_to_do)
        }
    }

    /// A service that cannot be used.
    fn unavailable(
        name: &'static str,
        detail: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Self {
        Self {
            status: ExitStatus::Unavailable,
            ..Self::fail(name, detail, what_to_do)
        }
    }
}

/// Looks at everything. Needs a tokio runtime.
pub(crate) async fn examine(configuration: &Configuration) -> Vec<Finding> {
    let mut findings = vec![machine::clock()];
    findings.extend(database::look(configuration).await);
    findings.extend(secrets::look(configuration).await);
    findings.extend(tls::look(configuration, SystemEnvironment.now()));
    findings.extend(addresses::look(configuration).await);
    findings.extend(push::look(configuration).await);
    findings.push(machine::open_files(&configuration.settings.limits));
    findings.extend(machine::disk_space(&configuration.settings.database));
    findings
}
