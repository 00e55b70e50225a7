//! Counts, times and traces HTTP calls by the pattern of their route: whatever callers invent as a path or a
//! method makes no series (OP-6, OP-7).

use std::sync::Arc;

use actix_http::Method;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use relay_actors::metrics::Metrics;
use tokio::time::Instant;

use crate::traces::Traces;

/// What stands for all that has no name of its own.
const OTHER: &str = "other";

/// Takes note of every HTTP call.
#[derive(Clone)]
pub(crate) struct CallObserver {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Option<Traces>,
}

impl CallObserver {
    /// Has a call answered, and takes note of it.
    pub(crate) async fn observe<B: MessageBody>(
        self,
        request: ServiceRequest,
        next: Next<B>,
    ) -> Result<ServiceResponse<B>, actix_web::Error> {
        let begun = Instant::now();
        let method = method_name(request.method());
        let traced = self.traces.as_ref();
        let traced =
            traced.and_then(|traces| Some((traces, traces.begin_call(request.headers())?)));
        let response = next.call(request).await?;
        let route = response.request().match_pattern();
        let route = route.unwrap_or_else(|| OTHER.to_owned());
        let status = response.status().as_u16();
        if let Some((traces, call)) = traced {
            traces.end_call(call, route.clone(), method, status);
        }
        self.metrics
            .http_answered(route, method, status, begun.elapsed());
        Ok(response)
    }
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
