//! One running `relay`, and the folder that outlives it, so that a test can stop a relay and start
//! the next one on the same database.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use reqwest::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::account::{Account, Device};
use super::backend::{Backend, Home};
use super::database::Database;
use super::evidence::Evidence;
use super::raw::RawSocket;
use super::socket::Socket;
use super::trust::Trust;
use super::{DEADLINE, LOOK_AGAIN, relay_binary};

/// What the relays of the tests sign with.
pub const SECRET: &str = "a secret that is good enough for tests only";

/// A folder with a database, and how relays on it are configured.
#[derive(Clone)]
pub struct Site {
    folder: Arc<TempDir>,
    home: Arc<Home>,
    settings: Vec<(String, String)>,
    confinement: Confinement,
    trust: Option<Trust>,
}

/// What the operating system holds a site's relays to.
#[derive(Debug, Clone, Copy)]
enum Confinement {
    None,
    /// So many open files.
    OpenFiles(u32),
    /// Files of so many blocks of 512 bytes.
    FileBlocks(u32),
    /// The rights of nobody in particular, also if the tests run with all rights.
    NoRights,
}

impl Confinement {
    /// What a shell does before it becomes the relay, if anything; `$0` is the binary, behind it come
    /// its arguments.
    fn script(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::OpenFiles(limit) => Some(format!("ulimit -n {limit} && exec \"$0\" \"$@\"")),
            // The hard limit stays, so that the soft one can be taken back.
            Self::FileBlocks(limit) => Some(format!("ulimit -S -f {limit} && exec \"$0\" \"$@\"")),
            // An open file is run wherever it lies, also where nobody may look.
            Self::NoRights => Some(
                "if test \"$(id -u)\" = 0; then exec 9<\"$0\" && exec setpriv --reuid=65534 \
                 --regid=65534 --clear-groups /proc/self/fd/9 \"$@\"; else exec \"$0\" \"$@\"; fi"
                    .to_owned(),
            ),
        }
    }
}

impl Site {
    /// An empty folder and an empty database of the kind that this run of the tests is about.
    /// `settings` are keys as `section.name` with their values.
    ///
    /// # Panics
    /// When they cannot be made.
    pub fn new(settings: &[(&str, &str)]) -> Self {
        Self::on(Backend::of_this_run(), settings)
    }

    /// The same with a database of this kind, for tests of its nature.
    ///
    /// # Panics
    /// When they cannot be made.
    pub fn on(backend: Backend, settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a folder for temporary files");
        let site = Self {
            home: Arc::new(Home::new(backend, folder.path())),
            folder: Arc::new(folder),
            settings: Vec::new(),
            confinement: Confinement::None,
            trust: None,
        };
        site.with(settings)
    }

    /// The same folder with other settings beside those that it has.
    pub fn with(&self, settings: &[(&str, &str)]) -> Self {
        let mut site = self.clone();
        let added = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        site.settings.extend(added);
        site
    }

    /// The same, for relays that may have no more than so many files open.
    pub fn with_open_files(&self, limit: u32) -> Self {
        let mut site = self.clone();
        site.confinement = Confinement::OpenFiles(limit);
        site
    }

    /// The same, for relays whose files may not grow beyond so many blocks of 512 bytes, until
    /// [`Relay::lift_file_limit`].
    pub fn with_file_blocks(&self, limit: u32) -> Self {
        let mut site = self.clone();
        site.confinement = Confinement::FileBlocks(limit);
        site
    }

    /// The same, for relays that have no rights beyond those of everybody.
    pub fn without_rights(&self) -> Self {
        let mut site = self.clone();
        site.confinement = Confinement::NoRights;
        site
    }

    /// The same, for relays that speak TLS with a certificate from this authority: everybody who connects
    /// to them by the means of [`Relay`] does so too, but for [`Relay::tcp`] and [`Relay::raw`].
    pub fn trusting(&self, trust: &Trust) -> Self {
        let mut site = self.clone();
        site.trust = Some(trust.clone());
        site
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another connection to the database.
    pub fn database(&self) -> Database {
        self.home.open()
    }

    /// Its `database.url`.
    pub fn database_url(&self) -> String {
        self.home.url()
    }

    /// The relay's binary, in this folder and with nothing but the given settings.
    pub fn command(&self) -> Command {
        let mut command = match self.confinement.script() {
            None => Command::new(relay_binary()),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(script).arg(relay_binary());
                shell
            }
        };
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("RELAY__") {
                command.env_remove(name);
            }
        }
        for (key, value) in &self.settings {
            let name = key.to_uppercase().replace('.', "__");
            command.env(format!("RELAY__{name}"), value);
        }
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// `relay serve` on a free port and this database, with a log that the tests can read.
    pub fn serve(&self) -> Command {
        let database = self.database_url();
        let mut preset = vec![
            ("server.listen", "127.0.0.1:0"),
            ("database.url", database.as_str()),
            ("auth.hs256_secret", SECRET),
            ("telemetry.log_format", "json"),
            ("drain.close_spread", "100ms"),
        ];
        preset.retain(|(key, _)| !self.settings.iter().any(|(set, _)| set == key));
        let mut command = self.with(&preset).command();
        command
            .arg("serve")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a relay and waits until it is ready.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(&self) -> Relay {
        let relay = self.listen().await;
        relay
            .eventually("readiness", async || {
                relay.get("/readyz").await.status == 200
            })
            .await;
        relay
    }

    /// Starts a relay and waits until it listens, for those that take no plain HTTP.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn listen(&self) -> Relay {
        let mut child = self.serve().spawn().expect("the relay's binary starts");
        let stderr = child.stderr.take().expect("it is piped");
        let evidence = Evidence::collect(stderr);
        let (address, admin_address) = evidence
            .wait_for("the address that the relay listens on", listen_addresses)
            .await;
        let mut client = Client::builder().no_proxy();
        if let Some(trust) = &self.trust {
            client = client.tls_certs_only([trust.certificate()]);
        }
        let client = client.build().expect("a client");
        Relay {
            site: self.clone(),
            child,
            address,
            admin_address,
            evidence,
            client,
        }
    }
}

/// Where devices connect, and where operators do.
fn listen_addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let address = line["listen"].as_str()?.parse().ok()?;
    let admin = line["admin"].as_str();
    let admin = admin.map_or(Some(address), |admin| admin.parse().ok())?;
    Some((address, admin))
}

/// A running relay; it is killed when it is dropped.
pub struct Relay {
    site: Site,
    child: Child,
    address: SocketAddr,
    admin_address: SocketAddr,
    evidence: Evidence,
    pub(super) client: Client,
}

impl Relay {
    /// A relay with default limits and an empty database.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A relay with some settings changed and an empty database.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        Site::new(settings).start().await
    }

    /// Its folder and settings.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for operators: the same, unless `server.admin_listen` is set.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// The id of its process.
    ///
    /// # Panics
    /// When the relay has ended already.
    pub(super) fn process_id(&self) -> u32 {
        self.child.id().expect("the relay runs")
    }

    /// The URL of what it serves at one of its addresses; operators have no TLS.
    pub(super) fn url(&self, address: SocketAddr, path: &str) -> String {
        let secure = self.site.trust.is_some() && address == self.address;
        let scheme = if secure { "https" } else { "http" };
        format!("{scheme}://{address}{path}")
    }

    /// Its log.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Waits until `condition` holds.
    ///
    /// # Panics
    /// When it does not within [`DEADLINE`].
    pub async fn eventually(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let waiting = async {
            while !condition().await {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(DEADLINE, waiting).await.is_err() {
            panic!("{what} did not come{}", self.evidence.tail());
        }
    }

    /// Makes a new desktop of `account` known, connects and registers it.
    pub async fn desktop(&self, account: &Account) -> Socket {
        let device = account.new_desktop();
        self.enrol(&device).await;
        self.connect(&device).await
    }

    /// Makes a new phone with `desktop` as target known, connects and registers it, and takes the
    /// target's status that comes first (PR-5).
    pub async fn phone(&self, desktop: &Device) -> Socket {
        let device = desktop.account.new_phone().targeting(desktop);
        self.enrol(&device).await;
        let mut phone = self.connect(&device).await;
        phone.next_status().await;
        phone
    }

    /// Connects and registers a device that the relay knows.
    pub async fn connect(&self, device: &Device) -> Socket {
        let mut socket = self.upgrade(device).await;
        socket.register().await;
        socket
    }

    /// Connects a device without registering it.
    pub async fn upgrade(&self, device: &Device) -> Socket {
        self.upgrade_with(device, &device.upgrade_headers()).await
    }

    /// Connects a device by way of `address`, without registering it.
    pub async fn upgrade_at(&self, address: SocketAddr, device: &Device) -> Socket {
        let headers = device.upgrade_headers();
        let trust = self.site.trust.as_ref();
        Socket::upgrade(address, trust, device, &headers, self.evidence.clone()).await
    }

    /// Connects a device with these headers.
    pub async fn upgrade_with(&self, device: &Device, headers: &[(String, String)]) -> Socket {
        let trust = self.site.trust.as_ref();
        Socket::upgrade(self.address, trust, device, headers, self.evidence.clone()).await
    }

    /// Connects a device whose bytes the test writes itself.
    pub async fn raw(&self, device: &Device) -> RawSocket {
        let trust = self.site.trust.as_ref();
        let mut raw = RawSocket::open(self.address, trust, self.evidence.clone()).await;
        raw.upgrade(&device.upgrade_headers()).await;
        raw
    }

    /// A TCP connection on which nothing was said.
    pub async fn tcp(&self) -> RawSocket {
        RawSocket::open(self.address, None, self.evidence.clone()).await
    }

    /// Sends a signal by its name, such as `TERM`.
    ///
    /// # Panics
    /// When the relay has ended already.
    pub async fn signal(&self, name: &str) {
        let id = self.process_id();
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {id}"))
            .status()
            .await;
        assert!(status.expect("sh runs").success(), "kill -{name}");
    }

    /// Sends a signal until the relay takes it for the one that ends its drain at once (DR-4): those that
    /// come shortly behind the first are the same wish.
    ///
    /// # Panics
    /// When the relay does not within [`DEADLINE`].
    pub async fn hurry(&self, name: &str) {
        self.eventually("the second signal", async || {
            self.signal(name).await;
            let said = |line: &String| line.contains("a second signal: ending at once");
            self.evidence.lines().iter().any(said)
        })
        .await;
    }

    /// Has it read its configuration again, and returns the next line of its log with this message.
    ///
    /// # Panics
    /// When there is none within [`DEADLINE`].
    pub async fn reload(&self, message: &str) -> Value {
        let before = self.evidence.told(message).len();
        self.signal("HUP").await;
        let is_told = async || self.evidence.told(message).len() > before;
        self.eventually(message, is_told).await;
        self.evidence.told(message).swap_remove(before)
    }

    /// Lets its files grow again.
    ///
    /// # Panics
    /// When the relay has ended already.
    pub async fn lift_file_limit(&self) {
        let id = self.process_id().to_string();
        let mut prlimit = Command::new("prlimit");
        let status = prlimit.args(["--pid", &id, "--fsize=unlimited:"]).status();
        assert!(status.await.expect("prlimit runs").success());
    }

    /// The processor time that it has used, in clock ticks, of which there are 100 a second.
    ///
    /// # Panics
    /// When the relay has ended already.
    pub fn processor_ticks(&self) -> u64 {
        let id = self.process_id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("Linux");
        // The name of the program may hold blanks and ends with the last bracket.
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        let times = fields.split_whitespace().skip(11).take(2);
        times.map(|time| time.parse::<u64>().expect("ticks")).sum()
    }

    /// Waits until the process ends.
    ///
    /// # Panics
    /// When it does not within [`DEADLINE`].
    pub async fn exit_status(&mut self) -> ExitStatus {
        match tokio::time::timeout(DEADLINE, self.child.wait()).await {
            Ok(status) => status.expect("the relay can be waited for"),
            Err(_) => panic!("the relay did not end{}", self.evidence.tail()),
        }
    }

    /// Stops it as an operator would and starts the next one on the same database.
    pub async fn restart(mut self) -> Self {
        self.signal("TERM").await;
        let status = self.exit_status().await;
        assert!(status.success(), "{status}{}", self.evidence.tail());
        self.site.start().await
    }

    /// Kills it without a warning and starts the next one on the same database.
    pub async fn crash(mut self) -> Self {
        self.signal("KILL").await;
        self.exit_status().await;
        self.site.start().await
    }
}
