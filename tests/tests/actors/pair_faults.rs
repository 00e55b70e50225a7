//! Whatever devices do while the registry of their pair is about to panic, nobody is left at it: each
//! request ends or its connection does, no desktop is called offline, and who is connected is served.

use std::time::Duration;

use relay_model::ids::{AccountId, DeviceId};
use relay_model::store::DeviceType;
use relay_tests::paused::{Device, Received, Run, pass};
use relay_tests::simulator::dice::Dice;
use serde_json::{Value, json};

const STORIES: u64 = 500;
const MOMENT: Duration = Duration::from_millis(5);
/// So that registrations begin and are decided before it, at its end, and after it.
const STALL: Duration = Duration::from_millis(60);
/// Passes over all devices in which a request comes to its desktop and the answer back, and more.
const PASSES: usize = 4;

/// A device with its newest connection.
struct Client {
    device: Device,
    device_type: DeviceType,
    /// The desktop that a phone turned to.
    target: DeviceId,
    /// The requests that this connection waits for.
    asked: Vec<String>,
    closed: bool,
}

struct Story {
    run: Run,
    account: AccountId,
    dice: Dice,
    desktops: [DeviceId; 2],
    clients: Vec<Client>,
    requests: usize,
    /// Requests that were answered by their desktop.
    served: Vec<String>,
}

impl Story {
    /// Two desktops and three phones, all registered.
    async fn begin(seed: u64) -> Self {
        let run = Run::start();
        let account = run.account();
        let (one, two) = (run.desktop(account).await, run.desktop(account).await);
        let desktops = [one.id, two.id];
        let mut clients = Vec::new();
        for device in [one, two] {
            clients.push(Client::new(device, DeviceType::Desktop, desktops[0]));
        }
        for target in [0, 0, 1] {
            let target = desktops[target];
            let device = run.phone(account, target).await;
            clients.push(Client::new(device, DeviceType::Mobile, target));
        }
        Self {
            run,
            account,
            dice: Dice::new(seed),
            desktops,
            clients,
            requests: 0,
            served: Vec::new(),
        }
    }

    async fn ask(&mut self, client: usize) -> String {
        self.requests += 1;
        let id = format!("r{}", self.requests);
        let client = &mut self.clients[client];
        client.device.request(&id).await;
        client.asked.push(id.clone());
        id
    }

    /// A device does something, and does not wait for what comes of it.
    async fn act(&mut self) {
        let client = self.dice.between(0..=self.clients.len() as u64 - 1) as usize;
        let desktops = self.desktops;
        let target = self.dice.pick(&desktops).expect("two desktops");
        let is_phone = self.clients[client].device_type == DeviceType::Mobile;
        match self.dice.between(0..=3) {
            0 | 1 if is_phone => _ = self.ask(client).await,
            2 => {
                let client = &mut self.clients[client];
                client.target = target;
                let target = json!({"targetDesktopDeviceId": target});
                client.device.send_register(target).await;
            }
            _ => {
                let Client {
                    device_type,
                    device: Device { id, .. },
                    ..
                } = self.clients[client];
                let target = is_phone.then_some(target);
                let connect = self.run.connect(self.account, device_type, id, target);
                let mut device = connect.await;
                device.send_register(json!({})).await;
                let target = target.unwrap_or(id);
                self.clients[client] = Client::new(device, device_type, target);
            }
        }
    }

    /// All hear what there is to hear, and desktops answer what they are asked.
    async fn settle(&mut self) {
        for _ in 0..PASSES {
            for client in &mut self.clients {
                client.listen(&mut self.served).await;
            }
        }
    }

    /// All whose connections were closed connect again.
    async fn reconnect(&mut self) {
        for client in &mut self.clients {
            if client.closed {
                let (id, target) = (client.device.id, client.target);
                let device = match client.device_type {
                    DeviceType::Desktop => self.run.desktop_again(self.account, id).await,
                    DeviceType::Mobile => self.run.phone_again(self.account, id, target).await,
                };
                *client = Client::new(device, client.device_type, target);
            }
        }
    }
}

impl Client {
    fn new(device: Device, device_type: DeviceType, target: DeviceId) -> Self {
        Self {
            device,
            device_type,
            target,
            asked: Vec::new(),
            closed: false,
        }
    }

    async fn listen(&mut self, served: &mut Vec<String>) {
        while !self.closed
            && let Some(received) = self.device.receive_within(MOMENT).await
        {
            let Received::Frame(frame) = received else {
                self.closed = true;
                self.asked.clear();
                return;
            };
            let (id, error) = (&frame["payload"]["id"], &frame["payload"]["error"]["code"]);
            let status = &frame["payload"]["payload"]["status"];
            // Every desktop is away for a moment at most.
            assert!(
                *error != json!(-32010) && *status != json!("disconnected"),
                "{frame}"
            );
            let id = id.as_str().unwrap_or_default();
            match frame["type"].as_str() {
                Some("rpc.request") => self.device.answer(id, json!("served")).await,
                Some("rpc.response") => {
                    if frame["payload"]["result"] != Value::Null {
                        served.push(id.to_owned());
                    }
                    self.asked.retain(|asked| asked != id);
                }
                _ => {}
            }
        }
    }
}

/// RPC-2, RPC-4, PR-2, REG-6, REG-10: as the file says.
#[actix_rt::test(system = "relay_tests::paused::PausedSystem")]
async fn nobody_is_left_at_a_pair_that_panics() {
    for seed in 0..STORIES {
        let mut story = Story::begin(seed).await;
        for client in 2..5 {
            if story.dice.chance(50) {
                story.ask(client).await;
            }
        }
        pass(MOMENT).await;
        let (account, failing) = (story.account, story.desktops[0]);
        story.run.relay.stall_pair(account, failing, STALL).await;
        let delay = MOMENT * story.dice.between(0..=3) as u32;
        story.run.store.set_delay(delay);
        for _ in 0..story.dice.between(1..=8) {
            story.act().await;
            pass(MOMENT * story.dice.between(0..=4) as u32).await;
        }
        pass(STALL).await;
        story.run.store.set_delay(Duration::ZERO);
        story.settle().await;
        for client in &story.clients {
            assert_eq!(client.asked, Vec::<String>::new(), "seed {seed}: no answer");
        }
        story.reconnect().await;
        story.settle().await;
        for client in 2..5 {
            let id = story.ask(client).await;
            story.settle().await;
            assert!(
                story.served.contains(&id),
                "seed {seed}: {id} is not served"
            );
        }
        assert_eq!(story.run.environment.faults(), []);
    }
}
