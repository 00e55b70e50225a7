//! `relay drain`: asks a running relay to drain and follows it until it has ended (section 10).

use std::io::Write;
use std::time::Duration;

use actix_rt::System;
use clap::Args;
use reqwest::Method;

use super::configuration_arguments::ConfigurationArguments;
use super::operator_client::{OperatorArguments, OperatorCallError, OperatorClient};
use super::{CommandError, Surroundings};
use crate::admin_api::{Drain, State};

/// How often it asks how far the relay has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

const EXAMPLES: &str = "\
Examples:
  relay drain                                        the relay of ./relay.toml
  RELAY__ADMIN__TOKEN=\"$TOKEN\" relay drain --url http://10.0.0.7:8788
  relay drain --no-wait

The relay refuses registrations at once, waits for work in progress (drain.timeout), closes every device
socket with 1012 (drain.close_spread) and ends with 0. Start the next relay before. There is no way back.
Ends with 69 if no relay answers, and with 64 if it does not take the token.";

/// Ask a running relay to drain, and follow it to its end.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Return once the relay has begun.
    #[arg(long)]
    no_wait: bool,
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
        let no_wait = self.no_wait;
        System::new().block_on(async {
            // Whoever answers there later may be the next relay.
            let state: State = client.call(Method::GET, "/admin/state").await?;
            let draining: Drain = client.call(Method::POST, "/admin/drain").await?;
            writeln!(output, "{}", line(&draining))?;
            output.flush()?;
            if no_wait {
                return Ok(());
            }
            follow(&client, &state.relay_instance_id, line(&draining), output).await
        })
    }
}

/// Prints each change until the relay is gone.
async fn follow(
    client: &OperatorClient,
    instance: &str,
    mut last: String,
    output: &mut dyn Write,
) -> Result<(), CommandError> {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        match client.call::<State>(Method::GET, "/admin/state").await {
            Ok(state) if state.relay_instance_id == instance => {
                let next = line(&state.drain);
                if next != last {
                    writeln!(output, "{next}")?;
                    output.flush()?;
                    last = next;
                }
            }
            // The next relay answers there, or nobody does.
            Ok(_) | Err(OperatorCallError::Unreachable { .. }) => break,
            // It is on its way out, and may not be able to answer any more.
            Err(OperatorCallError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    writeln!(output, "the relay has ended")?;
    Ok(())
}

/// How far a drain has come, in a line.
pub(super) fn line(drain: &Drain) -> String {
    let phase = &drain.phase;
    match (drain.sockets_left, &drain.work) {
        (Some(sockets), _) => format!("{phase}: {sockets} sockets left"),
        (None, Some(work)) => format!(
            "{phase}: waiting for {} requests, {} frames, {} database calls, {} pushes",
            work.requests, work.frames, work.database, work.push
        ),
        (None, None) => phase.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::relay;
    use super::*;
    use crate::exit::ExitStatus;

    /// DR-2, DR-3: what is still waited for is told, by phase.
    #[test]
    fn progress_is_readable() {
        let mut drain = Drain {
            phase: "announced".to_owned(),
            seconds: 0.1,
            seconds_left: None,
            work: None,
            sockets_left: None,
        };
        assert_eq!(line(&drain), "announced");
        drain.phase = "draining".to_owned();
        let work = r#"{"requests":2,"frames":1,"database":0,"push":3}"#;
        drain.work = serde_json::from_str(work).unwrap();
        assert_eq!(
            line(&drain),
            "draining: waiting for 2 requests, 1 frames, 0 database calls, 3 pushes"
        );
        drain.phase = "closing".to_owned();
        drain.sockets_left = Some(7);
        assert_eq!(line(&drain), "closing: 7 sockets left");
    }

    /// OP-1: nobody to drain ends with 69, no token with 64.
    #[test]
    fn failures_have_their_exit_codes() {
        let token = ("RELAY__ADMIN__TOKEN", "0123456789abcdef0123456789abcdef");
        // Nobody listens on the port of the discard service.
        let away = ["drain", "--url", "http://127.0.0.1:9"];
        assert_eq!(relay(&away, &[]).status, ExitStatus::Usage);
        assert_eq!(relay(&away, &[token]).status, ExitStatus::Unavailable);
    }
}
