//! Counts and times HTTP calls by the pattern of their route: whatever callers invent as a path or a
//! method makes no series (OP-6).

use std::sync::Arc;

use actix_http::Method;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use relay_actors::metrics::Metrics;
use tokio::time::Instant;

/// What stands for all that has no name of its own.
const OTHER: &str = "other";

/// Answers a call and takes note of it.
pub(crate) async fn measured<B: MessageBody>(
    metrics: Arc<Metrics>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, actix_web::Error> {
    let begun = Instant::now();
    let method = method_name(request.method());
    let response = next.call(request).await?;
    let route = response.request().match_pattern();
    let route = route.unwrap_or_else(|| OTHER.to_owned());
    let status = response.status().as_u16();
    metrics.http_answered(route, method, status, begun.elapsed());
    Ok(response)
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    }
}
