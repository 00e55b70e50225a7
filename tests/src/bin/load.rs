//! Puts a relay under load and prints what was measured; `tests/bench` runs it against the relay
//! and the minimal relay in turn.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use relay_tests::load::{
    BigLoad, ConnectLoad, Credentials, Endpoint, IdleLoad, LoadError, Measured, Process, RpcLoad,
    enrol, report,
};

/// Measure a relay with the real frames. Prints one `figure<TAB>value` a line.
#[derive(Parser)]
#[command(after_help = "Example: load rpc --address 127.0.0.1:8787 --pid 4711 --size 256")]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Make the devices rows of the relay's database, over HTTP
    Enrol {
        #[command(flatten)]
        server: Server,
        /// Pairs of one desktop and one phone
        #[arg(long, default_value_t = 5_100)]
        pairs: usize,
    },
    /// Round trips in a closed loop: requests/s, latency, CPU per round trip
    Rpc {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        pid: Pid,
        /// Desktops, each with one phone
        #[arg(long, default_value_t = 100)]
        pairs: usize,
        /// Bytes of every request and of every answer
        #[arg(long, default_value_t = 256)]
        size: usize,
        /// Requests that each phone keeps open
        #[arg(long, default_value_t = 1)]
        inflight: usize,
        /// Seconds of load before the measurement
        #[arg(long, default_value_t = 2.0)]
        warm_up: f64,
        /// Seconds of the measurement
        #[arg(long, default_value_t = 8.0)]
        seconds: f64,
    },
    /// Memory per socket, idle and after one 64 KiB message each way
    Idle {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        pid: Pid,
        /// Sockets, half desktops and half phones
        #[arg(long = "n", default_value_t = 10_000)]
        sockets: usize,
    },
    /// Peak memory while one message of nearly 32 MiB passes in each direction
    Big {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        pid: Pid,
    },
    /// Sockets connected and registered per second
    Connect {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        pid: Pid,
        /// Sockets, half desktops and half phones
        #[arg(long = "n", default_value_t = 2_000)]
        sockets: usize,
    },
    /// Turn a file of results into tables
    Report {
        /// Lines of `load<TAB>contender<TAB>run<TAB>figure<TAB>value`
        results: PathBuf,
    },
}

#[derive(Args)]
struct Server {
    /// Where the server listens
    #[arg(long, default_value = "127.0.0.1:8787")]
    address: SocketAddr,
    /// The HS256 secret that the server checks tokens with
    #[arg(long, env = "BENCH_SECRET", hide_env_values = true)]
    secret: String,
}

impl Server {
    fn endpoint(&self) -> Result<Endpoint, LoadError> {
        Ok(Endpoint {
            address: self.address,
            credentials: Credentials::new(&self.secret)?,
        })
    }
}

#[derive(Args)]
struct Pid {
    /// The server's process id
    #[arg(long)]
    pid: u32,
}

impl Pid {
    fn process(&self) -> Process {
        Process::new(self.pid)
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let printed = match Cli::parse().mode {
        Mode::Report { results } => tables(&results),
        mode => measure(mode).await.map_err(|error| error.to_string()),
    };
    match printed {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("load: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn tables(results: &PathBuf) -> Result<String, String> {
    let results = fs::read_to_string(results)
        .map_err(|error| format!("cannot read {}: {error}", results.display()))?;
    report(&results).map_err(|error| error.to_string())
}

async fn measure(mode: Mode) -> Result<String, LoadError> {
    let figures = match mode {
        Mode::Enrol { server, pairs } => {
            enrol(&server.endpoint()?, pairs).await?;
            Vec::new()
        }
        Mode::Rpc {
            server,
            pid,
            pairs,
            size,
            inflight,
            warm_up,
            seconds,
        } => {
            let load = RpcLoad {
                pairs,
                size,
                in_flight: inflight,
                warm_up: Duration::from_secs_f64(warm_up),
                measured: Duration::from_secs_f64(seconds),
            };
            load.run(&server.endpoint()?, pid.process()).await?
        }
        Mode::Idle {
            server,
            pid,
            sockets,
        } => {
            let load = IdleLoad { sockets };
            load.run(&server.endpoint()?, pid.process()).await?
        }
        Mode::Big { server, pid } => BigLoad.run(&server.endpoint()?, pid.process()).await?,
        Mode::Connect {
            server,
            pid,
            sockets,
        } => {
            let load = ConnectLoad { sockets };
            load.run(&server.endpoint()?, pid.process()).await?
        }
        Mode::Report { .. } => Vec::new(),
    };
    Ok(figures.iter().map(line).collect())
}

fn line(figure: &Measured) -> String {
    format!("{figure}\n")
}
