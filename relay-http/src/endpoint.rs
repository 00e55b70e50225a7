//! One path of an API with the methods that it takes: what is served, what `Allow` says, and what
//! is compared with the published description all come from here.

use std::borrow::Cow;

use actix_web::http::Method;
use actix_web::{FromRequest, Handler, HttpResponse, Resource, Responder, Route, guard, web};

use crate::refusal::Refusal;

/// A path and the handlers of its methods.
pub(crate) struct Endpoint {
    path: &'static str,
    methods: Vec<Method>,
    routes: Vec<Route>,
}

impl Endpoint {
    /// A path that takes no method yet.
    pub(crate) fn at(path: &'static str) -> Self {
        Self {
            path,
            methods: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// Takes GET, and HEAD: health checks of load balancers ask so.
    pub(crate) fn get<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        let either = web::route().guard(guard::Any(guard::Get()).or(guard::Head()));
        self.takes([Method::GET, Method::HEAD], either.to(handler))
    }

    /// Takes POST.
    pub(crate) fn post<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.takes([Method::POST], web::post().to(handler))
    }

    /// Takes PUT.
    pub(crate) fn put<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.takes([Method::PUT], web::put().to(handler))
    }

    /// Takes PATCH.
    pub(crate) fn patch<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.takes([Method::PATCH], web::patch().to(handler))
    }

    /// Takes DELETE.
    pub(crate) fn delete<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.takes([Method::DELETE], web::delete().to(handler))
    }

    fn takes<const N: usize>(mut self, methods: [Method; N], route: Route) -> Self {
        self.methods.extend(methods);
        self.routes.push(route);
        self
    }

    /// Its path, with its parameters in braces.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &'static str {
        self.path
    }

    /// The methods that it takes.
    #[cfg(test)]
    pub(crate) fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// What serves it; other methods are refused with those that it takes.
    pub(crate) fn into_resource(self) -> Resource {
        let names: Vec<&str> = self.methods.iter().map(Method::as_str).collect();
        let allow: Cow<'static, str> = names.join(", ").into();
        let refused = web::to(move || {
            let allow = allow.clone();
            async move { Err::<HttpResponse, _>(Refusal::MethodNotAllowed { allow }) }
        });
        let resource = web::resource(self.path).default_service(refused);
        self.routes.into_iter().fold(resource, Resource::route)
    }
}
