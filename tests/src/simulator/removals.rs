//! What users do with their devices: they forget them and let them rejoin, and sign out (PR-4, SES-2).

use std::rc::Rc;

use relay_model::store::{
    DesktopRegistration, DeviceType, PhoneRegistration, RegistrationOutcome, StoreError,
};

use super::cast::DeviceNo;
use super::plan;
use super::trace::{Removal, What};
use super::world::{Due, World};

impl World {
    /// A device's row is made or renewed, as by HTTP registration. The call runs on when its future is
    /// dropped or this world goes on.
    pub(super) fn register_row(
        &self,
        device: DeviceNo,
        rejoin: bool,
    ) -> impl Future<Output = Result<RegistrationOutcome, StoreError>> + use<> {
        let member = *self.cast.member(device);
        let account = self.cast.accounts[member.account.0];
        let relay = self.relay.clone();
        async move {
            match member.kind {
                DeviceType::Desktop => {
                    let row = DesktopRegistration {
                        device_name: device.to_string(),
                        platform: "linux".to_owned(),
                        platform_version: None,
                        app_version: "1".to_owned(),
                        capabilities: None,
                        relay_eligible: None,
                        rejoin,
                    };
                    relay.register_desktop(account, member.id, row).await
                }
                DeviceType::Mobile => {
                    let row = PhoneRegistration {
                        device_name: device.to_string(),
                        platform: "ios".to_owned(),
                        app_version: "1".to_owned(),
                        capabilities: None,
                        rejoin,
                        push_token: None,
                    };
                    relay.register_phone(account, member.id, row).await
                }
            }
        }
    }

    fn pick_device(&mut self, is: impl Fn(&Self, DeviceNo) -> bool) -> Option<DeviceNo> {
        let in_focus = |device: &DeviceNo| {
            let account = self.cast.member(*device).account;
            self.focus.is_none_or(|focus| focus == account)
        };
        let devices: Vec<_> = self
            .cast
            .devices()
            .filter(in_focus)
            .filter(|device| is(self, *device))
            .collect();
        self.dice.pick(&devices)
    }

    pub(super) fn forget_something(&mut self) {
        if let Some(device) = self.pick_device(|world, device| !world.memories[device.0].forgotten)
        {
            self.forget(device);
        }
    }

    pub(super) fn forget(&mut self, device: DeviceNo) {
        self.memories[device.0].forgotten = true;
        self.touch(device);
        let devices = vec![device];
        self.log
            .note(What::Removing(Removal::Forget, devices.clone()));
        let member = *self.cast.member(device);
        let account = self.cast.accounts[member.account.0];
        let (relay, log) = (self.relay.clone(), Rc::clone(&self.log));
        actix_rt::spawn(async move {
            let forgotten = relay.forget_device(account, member.id).await;
            let done = forgotten == Ok(true);
            log.tell(What::Removed(Removal::Forget, devices, done));
        });
    }

    pub(super) fn sign_out_somewhere(&mut self) {
        if let Some(device) = self.pick_device(|_, _| true) {
            let all = self.dice.chance(15);
            self.sign_out(device, all);
        }
    }

    pub(super) fn sign_out(&mut self, device: DeviceNo, all: bool) {
        self.touch(device);
        let member = *self.cast.member(device);
        let devices = match all {
            true => self.cast.of_account(member.account).collect(),
            false => vec![device],
        };
        self.log
            .note(What::Removing(Removal::SignOut, devices.clone()));
        let account = self.cast.accounts[member.account.0];
        let (relay, log) = (self.relay.clone(), Rc::clone(&self.log));
        actix_rt::spawn(async move {
            let named = (!all).then_some(member.id);
            let done = relay.sign_out(account, named).await.is_ok();
            log.tell(What::Removed(Removal::SignOut, devices, done));
        });
    }

    pub(super) fn rejoin(&mut self, device: DeviceNo) {
        self.log.note(What::Rejoining(device));
        let (row, log) = (self.register_row(device, true), Rc::clone(&self.log));
        actix_rt::spawn(async move {
            let done = matches!(row.await, Ok(RegistrationOutcome::Registered(_)));
            log.tell(What::Rejoined(device, done));
        });
    }

    /// The relay has answered: what is done is followed by what comes next, what failed is tried again.
    pub(super) fn removed(&mut self, removal: Removal, devices: &[DeviceNo], done: bool) {
        for device in devices {
            self.touch(*device);
        }
        let Some(first) = devices.first() else {
            return;
        };
        match (removal, done) {
            (Removal::Forget, true) => {
                let after = plan::exile(&mut self.dice);
                self.plan(after, Due::Rejoin(*first));
            }
            (Removal::Forget, false) => {
                let after = plan::retry(&mut self.dice);
                self.plan(after, Due::Forget(*first));
            }
            (Removal::SignOut, true) => {}
            (Removal::SignOut, false) => {
                let after = plan::retry(&mut self.dice);
                self.plan(after, Due::SignOut(*first, devices.len() > 1));
            }
        }
    }

    pub(super) fn rejoined(&mut self, device: DeviceNo, done: bool) {
        self.touch(device);
        if done {
            self.memories[device.0].forgotten = false;
        } else {
            let after = plan::retry(&mut self.dice);
            self.plan(after, Due::Rejoin(device));
        }
    }
}
