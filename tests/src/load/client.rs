//! One device's WebSocket, spoken by hand over a plain TCP stream: no buffer of its own while
//! nothing is unfinished, one system call per read, so that ten thousand of them fit beside the
//! server that they measure.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use relay_model::store::DeviceType;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::devices::{Credentials, Device};
use super::error::LoadError;
use super::frames::{Incoming, Received, append_pong, append_text};
use super::traffic::frame_type;

/// The protocol version that the load speaks (REG-4).
const PROTOCOL_VERSION: u32 = 1;
/// RFC 6455's example key; a load has no cache to fool.
const WEBSOCKET_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// The longest answer to an upgrade that is looked at, in bytes.
const HEAD_LIMIT: usize = 16 * 1024;
/// Read at once at most; one buffer per thread serves every connection.
const READ_SIZE: usize = 256 * 1024;
/// The longest that connecting and registering may take on a busy server.
const REGISTRATION_LIMIT: Duration = Duration::from_secs(30);
/// RFC 6455 7.1.5: a close frame without a code.
const NO_CLOSE_CODE: u16 = 1005;

thread_local! {
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_SIZE]);
}

/// Where the server is and how to get in.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its address.
    pub address: SocketAddr,
    /// Tokens that it accepts.
    pub credentials: Credentials,
}

/// A registered connection of one device.
pub(super) struct Client {
    stream: TcpStream,
    incoming: Incoming,
    /// Answers to pings, to be written after the read that brought them.
    pongs: Vec<u8>,
}

impl Client {
    /// Connects, upgrades and registers.
    ///
    /// # Errors
    /// When the server refuses any of it, or takes longer than [`REGISTRATION_LIMIT`].
    pub(super) async fn open(endpoint: &Endpoint, device: Device) -> Result<Self, LoadError> {
        let opening = async {
            let mut client = Self::upgrade(endpoint, device).await?;
            client.register(device).await?;
            Ok(client)
        };
        timeout(REGISTRATION_LIMIT, opening)
            .await
            .unwrap_or(Err(LoadError::TimedOut {
                what: "a registration",
                limit: REGISTRATION_LIMIT,
            }))
    }

    async fn upgrade(endpoint: &Endpoint, device: Device) -> Result<Self, LoadError> {
        let address = endpoint.address;
        let mut stream = connect(address, device)
            .await
            .map_err(|source| LoadError::Connect { address, source })?;
        let target = match device.device_type() {
            DeviceType::Desktop => String::new(),
            DeviceType::Mobile => {
                let desktop = device.pair.desktop().id();
                format!("X-Target-Desktop-Device-ID: {desktop}\r\n")
            }
        };
        let request = format!(
            "GET /ws/device-link HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\
             Authorization: Bearer {token}\r\nX-Client-Type: {client_type}\r\n\
             X-Device-ID: {id}\r\n{target}\r\n",
            token = endpoint.credentials.token(device.pair)?,
            client_type = device.client_type(),
            id = device.id(),
        );
        stream.write_all(request.as_bytes()).await?;
        let early = read_head(&mut stream).await?;
        let mut client = Self {
            stream,
            incoming: Incoming::default(),
            pongs: Vec::new(),
        };
        // Nothing is due before `register`; whatever a server sends so early is kept all the same.
        client.incoming.push(&early, |received| match received {
            Received::Text(text) => Err(LoadError::unexpected(text)),
            _ => Ok(()),
        })?;
        Ok(client)
    }

    async fn register(&mut self, device: Device) -> Result<(), LoadError> {
        let target = match device.device_type() {
            DeviceType::Desktop => None,
            DeviceType::Mobile => Some(device.pair.desktop().id()),
        };
        let frame = json!({
            "type": "register",
            "payload": {
                "deviceId": device.id(),
                "deviceName": "load",
                "relayProtocolVersion": PROTOCOL_VERSION,
                "targetDesktopDeviceId": target,
            },
        });
        let mut out = Vec::new();
        append_text(&mut out, frame.to_string().as_bytes());
        self.send(&out).await?;
        let mut registered = false;
        while !registered {
            self.read(|message| {
                match frame_type(message).as_deref() {
                    Some("registered") => registered = true,
                    Some("event") => {}
                    _ => return Err(LoadError::unexpected(message)),
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Writes bytes that are whole frames.
    pub(super) async fn send(&mut self, frames: &[u8]) -> Result<(), LoadError> {
        self.send_pongs().await?;
        Ok(self.stream.write_all(frames).await?)
    }

    /// Safe to be abandoned: what is not yet written stays.
    async fn send_pongs(&mut self) -> Result<(), LoadError> {
        while !self.pongs.is_empty() {
            let written = self.stream.write(&self.pongs).await?;
            self.pongs.drain(..written);
        }
        // Nothing is kept for a socket that has nothing to say.
        self.pongs = Vec::new();
        Ok(())
    }

    /// Waits for bytes, reads once, and calls `on_message` for every message that they complete,
    /// which may be none. Loses nothing when it is abandoned.
    ///
    /// # Errors
    /// When the connection ends, and those of `on_message`.
    pub(super) async fn read(
        &mut self,
        mut on_message: impl FnMut(&[u8]) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        loop {
            self.stream.readable().await?;
            let read = READ_BUFFER.with_borrow_mut(|buffer| {
                let length = self.stream.try_read(buffer)?;
                if length == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                let pongs = &mut self.pongs;
                self.incoming
                    .push(&buffer[..length], |received| match received {
                        Received::Text(text) => on_message(text),
                        Received::Ping(payload) => {
                            append_pong(pongs, payload);
                            Ok(())
                        }
                        Received::Close(payload) => Err(closed(payload)),
                        Received::Foreign(first) => Err(LoadError::Unexpected(format!(
                            "a frame that begins with {first:#04x}"
                        ))),
                    })
            });
            match read {
                Err(LoadError::Broken(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        self.send_pongs().await
    }
}

async fn connect(address: SocketAddr, device: Device) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(v4) => {
            let socket = TcpSocket::new_v4()?;
            if v4.ip().is_loopback() {
                socket.bind(SocketAddr::from((device.source(), 0)))?;
            }
            socket
        }
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads the answer to the upgrade; returns what came behind it.
async fn read_head(stream: &mut TcpStream) -> Result<Vec<u8>, LoadError> {
    let mut head = Vec::with_capacity(512);
    loop {
        let ended = head
            .windows(END_OF_HEAD.len())
            .position(|window| window == END_OF_HEAD);
        if let Some(end) = ended {
            if !head.starts_with(b"HTTP/1.1 101 ") {
                return Err(refused(&head));
            }
            return Ok(head.split_off(end + END_OF_HEAD.len()));
        }
        if head.len() > HEAD_LIMIT || stream.read_buf(&mut head).await? == 0 {
            return Err(refused(&head));
        }
    }
}

fn refused(answer: &[u8]) -> LoadError {
    LoadError::UpgradeRefused(String::from_utf8_lossy(answer).into_owned())
}

fn closed(payload: &[u8]) -> LoadError {
    let (code, reason) = match payload {
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        _ => (NO_CLOSE_CODE, payload),
    };
    LoadError::Closed {
        code,
        reason: String::from_utf8_lossy(reason).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_frames_are_told_apart() {
        let with_code = closed(&[0x11, 0x39, b'x']).to_string();
        assert_eq!(with_code, "the server closed a connection with 4409 \"x\"");
        assert!(closed(&[]).to_string().contains("1005"));
    }
}
