//! `relay status`: what a running relay holds, as a table (section 11).

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::time::Duration;

use actix_rt::System;
use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::configuration_arguments::ConfigurationArguments;
use super::operator_client::{OperatorArguments, OperatorCallError, OperatorClient};
use super::{CommandError, Surroundings};
use crate::admin_api::State;
use crate::exit::ExitStatus;

/// How often `--watch` asks.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Clears a terminal.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

const EXAMPLES: &str = "\
Examples:
  relay status                                       the relay of ./relay.toml
  relay status --watch
  RELAY__ADMIN__TOKEN=\"$TOKEN\" relay status --url https://relay.internal:8788
  relay status --json | jq .pendingRequests

The relay needs an operator token for this (admin.token). Ends with 69 if no relay answers, and with 64
if it does not take the token.";

/// Show what a running relay holds.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Go on showing it, every two seconds, until interrupted.
    #[arg(long)]
    watch: bool,
    /// Print the answer of GET /admin/state itself.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: OperatorArguments,
}

impl Arguments {
    pub(super) fn run(
        self,
        before: ConfigurationArguments,
        surroundings: Surroundings<'_>,
    ) -> Result<(), CommandError> {
        let Surroundings {
            environment,
            output,
        } = surroundings;
        let client = self.operator.client(before, environment)?;
        let (json, watch) = (self.json, self.watch);
        System::new().block_on(async {
            let first = shown(&client, json).await?;
            output.write_all(first.as_bytes())?;
            if !watch {
                return Ok(());
            }
            let clear = if io::stdout().is_terminal() && !json {
                CLEAR
            } else {
                ""
            };
            loop {
                output.flush()?;
                tokio::select! {
                    biased;
                    interrupted = tokio::signal::ctrl_c() => {
                        interrupted?;
                        return Ok(());
                    }
                    () = tokio::time::sleep(WATCH_INTERVAL) => {}
                }
                let text = match shown(&client, json).await {
                    Ok(text) => text,
                    // It may come back: a deploy looks just so.
                    Err(error) if error.exit_status() == ExitStatus::Unavailable => {
                        format!("{error}\n")
                    }
                    Err(error) => return Err(error.into()),
                };
                write!(output, "{clear}{text}")?;
            }
        })
    }
}

async fn shown(client: &OperatorClient, json: bool) -> Result<String, OperatorCallError> {
    const PATH: &str = "/admin/state";
    if json {
        let state: Value = client.call(Method::GET, PATH).await?;
        return Ok(format!("{state}\n"));
    }
    let state: State = client.call(Method::GET, PATH).await?;
    Ok(table(&state, client.url().as_str()))
}

fn table(state: &State, url: &str) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<18} {value}");
    };
    row("relay", format!("{} at {url}", state.version));
    row("instance", state.relay_instance_id.clone());
    let uptime = age(Duration::from_secs(state.uptime_seconds));
    row("running", format!("{uptime}, since {}", state.started_at));
    let drain = &state.drain;
    if drain.phase != "running" {
        row("drain", super::drain::line(drain));
    }
    row("accounts", state.accounts.to_string());
    row("sockets", state.sockets.to_string());
    row("  desktops", state.routes.desktops.to_string());
    row("  phones", state.routes.phones.to_string());
    row("reconnecting", state.graces.to_string());
    let silent = match state.silent_pairs {
        0 => String::new(),
        silent => format!(", {silent} of them silent and not counted below"),
    };
    row("pairs", format!("{}{silent}", state.pairs));
    row("pending requests", state.pending_requests.to_string());
    row("leases", state.leases.to_string());
    row("sessions", state.sessions.to_string());
    row("by API key", state.key_sockets.to_string());
    let database = &state.database;
    row(
        "database",
        format!(
            "{} of {} calls, {} presence and {} heartbeats waiting",
            database.calls, state.limits.database_calls, database.presence, database.heartbeats
        ),
    );
    let share = |bytes: u64, limit: usize| format!("{} of {}", size(bytes), size(limit as u64));
    row(
        "outbound",
        share(state.outbound_bytes, state.limits.outbound_bytes),
    );
    row(
        "unfinished",
        share(state.unfinished_bytes, state.limits.unfinished_bytes),
    );
    let closes = state.closes.iter();
    row(
        "closes",
        list(closes.map(|close| (close.reason.as_str(), close.count))),
    );
    let refusals = state.refusals.iter();
    row(
        "refusals",
        list(refusals.map(|refusal| (refusal.code.as_str(), refusal.count))),
    );
    text
}

fn list<'s>(counts: impl Iterator<Item = (&'s str, u64)>) -> String {
    let each: Vec<String> = counts
        .map(|(word, count)| format!("{word} {count}"))
        .collect();
    if each.is_empty() {
        "none".to_owned()
    } else {
        each.join(", ")
    }
}

/// A span of time in its two largest units.
fn age(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// A number of bytes in a unit that people read.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let unit = match bytes {
        0..1_024 => 0,
        1_024..1_048_576 => 1,
        1_048_576..1_073_741_824 => 2,
        _ => 3,
    };
    let in_unit = bytes as f64 / 1_024_f64.powi(unit);
    let digits = if unit == 0 || in_unit.fract() == 0.0 {
        0
    } else {
        1
    };
    format!("{in_unit:.digits$} {}", UNITS[unit as usize])
}

#[cfg(test)]
mod tests {
    use super::super::tests::relay;
    use super::*;

    /// Command line: spans and sizes as people read them.
    #[test]
    fn numbers_are_readable() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m 1s"),
            (3_600, "1h 0m"),
            (90_000, "1d 1h"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
        for (bytes, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1 KiB"),
            (1_536, "1.5 KiB"),
            (1 << 30, "1 GiB"),
            (1 << 42, "4096 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    /// OP-1: without a token, or with an address that is none, the command ends with 64 and says what
    /// to do; without a relay, with 69.
    #[test]
    fn failures_have_their_exit_codes() {
        let token = ("RELAY__ADMIN__TOKEN", "0123456789abcdef0123456789abcdef");
        // Nobody listens on the port of the discard service.
        let away = ["status", "--url", "http://127.0.0.1:9"];
        for (arguments, environment, status, part) in [
            (&away[..], &[][..], ExitStatus::Usage, "RELAY__ADMIN__TOKEN"),
            (&away, &[token], ExitStatus::Unavailable, "127.0.0.1:9"),
            (
                &["status", "--url", "ftp://relay"],
                &[token],
                ExitStatus::Usage,
                "--url",
            ),
            (
                &["status", "--url", "relay"],
                &[token],
                ExitStatus::Usage,
                "--url",
            ),
            (
                &["status", "--listen", "127.0.0.1:0"],
                &[token],
                ExitStatus::Usage,
                "--url",
            ),
        ] {
            let ran = relay(arguments, environment);
            assert_eq!(ran.status, status, "{arguments:?}: {}", ran.errors);
            assert!(ran.errors.contains(part), "{part}: {}", ran.errors);
            assert!(!ran.errors.contains(token.1), "{}", ran.errors);
        }
    }
}
