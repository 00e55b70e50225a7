//! Puts a relay under load and prints what was measured; `tests/bench` runs it against the relay
//! and the minimal relay in turn.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use relay_tests::load::{
    BigLoad, ConnectLoad, Credentials, Endpoint, FanoutLoad, FrozenLoad, IdleLoad, Large,
    LoadError, Measured, Process, RpcLoad, enrol, report,
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
        /// Phones of the first pair's desktop
        #[arg(long, default_value_t = 100)]
        phones: usize,
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
        /// Where one more phone gets an answer of 12 MiB from, again and again
        #[arg(long, value_enum)]
        beside: Option<Large>,
        #[command(flatten)]
        times: Times,
    },
    /// Snapshots of one desktop to many phones, one after the other
    Fanout {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        pid: Pid,
        /// Phones with a lease on the same session
        #[arg(long, default_value_t = 100)]
        phones: usize,
        /// Bytes of every snapshot
        #[arg(long, default_value_t = 65_536)]
        size: usize,
        #[command(flatten)]
        times: Times,
    },
    /// Events of one desktop to many phones beside 1 MiB/s of snapshots
    Frozen {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        pid: Pid,
        /// Phones with a lease on the same session
        #[arg(long, default_value_t = 100)]
        phones: usize,
        /// One of them does not read
        #[arg(long)]
        one: bool,
        #[command(flatten)]
        times: Times,
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

/// When the measurement is.
#[derive(Args)]
struct Times {
    /// Seconds of load before the measurement
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
}

impl Times {
    fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up)
    }

    fn measured(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
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
        Mode::Enrol {
            server,
            pairs,
            phones,
        } => {
            enrol(&server.endpoint()?, pairs, phones).await?;
            Vec::new()
        }
        Mode::Rpc {
            server,
            pid,
            pairs,
            size,
            inflight,
            beside,
            times,
        } => {
            let load = RpcLoad {
                pairs,
                size,
                in_flight: inflight,
                warm_up: times.warm_up(),
                measured: times.measured(),
                beside,
            };
            load.run(&server.endpoint()?, pid.process()).await?
        }
        Mode::Fanout {
            server,
            pid,
            phones,
            size,
            times,
        } => {
            let load = FanoutLoad {
                phones,
                size,
                warm_up: times.warm_up(),
                measured: times.measured(),
            };
            load.run(&server.endpoint()?, pid.process()).await?
        }
        Mode::Frozen {
            server,
            pid,
            phones,
            one,
            times,
        } => {
            let load = FrozenLoad {
                phones,
                frozen: one,
                warm_up: times.warm_up(),
                measured: times.measured(),
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
