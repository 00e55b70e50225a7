//! The two answers to an upgrade request: the switch to WebSocket, and a refusal that reaches the
//! client whatever it has sent already.

use std::io;
use std::time::Duration;

use actix_codec::Framed;
use actix_http::body::BodySize;
use actix_http::header::SEC_WEBSOCKET_ACCEPT;
use actix_http::{ConnectionType, Response, StatusCode, h1};
use bytes::Bytes;
use futures_util::SinkExt;
use relay_actors::socket::transport::Transport;
use relay_model::limits::REFUSED_UPGRADE_BYTES;
use relay_model::websocket::handshake::AcceptKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::refusal::Refusal;

/// Switches to WebSocket and takes the stream out of the HTTP server's hands, with the bytes that
/// it has read beyond the request.
pub(super) async fn accept<T: Transport>(
    mut framed: Framed<T, h1::Codec>,
    key: &AcceptKey,
) -> io::Result<(T, Bytes)> {
    let response = Response::build(StatusCode::SWITCHING_PROTOCOLS)
        .upgrade("websocket")
        .insert_header((SEC_WEBSOCKET_ACCEPT, key.as_str()))
        .finish()
        .drop_body();
    framed
        .send(h1::Message::Item((response, BodySize::None)))
        .await?;
    let parts = framed.into_parts();
    // A copy, because a slice would keep the server's whole read buffer alive.
    Ok((parts.io, Bytes::copy_from_slice(&parts.read_buf)))
}

/// Writes `refusal` and closes, all within `deadline`.
pub(super) async fn refuse<T: Transport>(
    framed: Framed<T, h1::Codec>,
    refusal: &Refusal,
    deadline: Duration,
) {
    // Whatever goes wrong here, the client has gone; there is nobody left to tell.
    let _ = tokio::time::timeout(deadline, write_refusal(framed, refusal)).await;
}

async fn write_refusal<T: Transport>(
    mut framed: Framed<T, h1::Codec>,
    refusal: &Refusal,
) -> io::Result<()> {
    let body = Bytes::from(refusal.body());
    let mut response = Response::build(refusal.status());
    response.insert_header(Refusal::content_type());
    for header in refusal.headers() {
        response.insert_header(header);
    }
    let mut response = response.finish().drop_body();
    response
        .head_mut()
        .set_connection_type(ConnectionType::Close);
    let size = BodySize::Sized(body.len() as u64);
    framed.feed(h1::Message::Item((response, size))).await?;
    framed.feed(h1::Message::Chunk(Some(body))).await?;
    framed.send(h1::Message::Chunk(None)).await?;

    // Closing a TCP connection with unread bytes resets it, and a reset can overtake the refusal:
    // what the client has sent behind its request is read first.
    let mut stream = framed.into_parts().io;
    stream.shutdown().await?;
    let mut rest = (&mut stream).take(REFUSED_UPGRADE_BYTES as u64);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}
