//! An application with a limit of every kind, driven by tests/examples.
//!
//! Settings come from the environment: PORT, REDIS_URL, ON_ERROR (open, closed), LEGACY_HEADERS (1), TIMEOUT_MS,
//! MAX_WAIT_MS, TRUSTED_PROXIES, HASH_TAG.

use std::env;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::request::Parts;
use axum::{Router, routing::get};
use redis_rl_tower::{
    Algorithm, Limit, OnError, Rate, RateLimiter, by_header, by_ip_behind, constant,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let address = (Ipv4Addr::LOCALHOST, setting("PORT", "8000").parse()?);
    let listener = tokio::net::TcpListener::bind(address).await?;
    let service = app()?.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

fn app() -> Result<Router, Box<dyn Error>> {
    let on_error = match setting("ON_ERROR", "open").as_str() {
        "closed" => OnError::Closed,
        _ => OnError::Open,
    };
    let mut limiter = RateLimiter::new(setting("REDIS_URL", "redis://127.0.0.1:6379"))?
        .on_error(on_error)
        .legacy_headers(setting("LEGACY_HEADERS", "0") == "1")
        .timeout(Duration::from_millis(setting("TIMEOUT_MS", "100").parse()?))
        .max_wait(Duration::from_millis(
            setting("MAX_WAIT_MS", "10000").parse()?,
        ));

    if let Ok(tag) = env::var("HASH_TAG") {
        limiter = limiter.hash_tag(constant(&tag));
    }

    let ip = by_ip_behind(setting("TRUSTED_PROXIES", "0").parse()?);
    let user = by_header("x-user");
    let seconds = Duration::from_secs;
    let per_second = Rate::per_second;

    let minutely = Algorithm::sliding([(seconds(60), 100)]);
    let default = Limit::new("default", minutely.clone(), ip.clone());
    let tiers = Algorithm::sliding([(seconds(10), 3), (seconds(60), 5)]);
    let tiers = Limit::new("tiers", tiers, ip.clone());
    let hourly = Algorithm::fixed(seconds(3600), 3);
    let login = Limit::new("login", hourly, by_header("x-api-key"));
    let burst = Algorithm::token(5, per_second(2));
    let upload = Limit::new("upload", burst, ip.clone()).cost(cost);
    let estimate = Algorithm::counter(seconds(10), 10);
    let feed = Limit::new("feed", estimate, user.clone());
    let queue = Limit::new("queue", Algorithm::leaky(3, per_second(2)), ip.clone());
    let layers = [
        Limit::new("ip", minutely, ip),
        Limit::new("user", Algorithm::token(5, per_second(1)), user),
        Limit::new(
            "endpoint",
            Algorithm::fixed(seconds(3600), 1000),
            constant("all"),
        ),
    ];

    let served = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&served);
    let work = async move || {
        counted.fetch_add(1, Ordering::Relaxed);
        "ok\n"
    };
    let count = async move || format!("{}\n", served.load(Ordering::Relaxed));
    let ok = || get(async || "ok\n");
    Ok(Router::new()
        .route("/free", ok())
        .route("/served", get(count))
        .route("/default", ok().layer(limiter.layer([default])))
        .route("/tiers", ok().layer(limiter.layer([tiers])))
        .route("/login", ok().layer(limiter.layer([login])))
        .route("/upload", ok().layer(limiter.layer([upload])))
        .route("/feed", ok().layer(limiter.layer([feed])))
        .route("/queue", get(work).layer(limiter.layer([queue])))
        .route("/layers", ok().layer(limiter.layer(layers))))
}

/// `?cost=n`; 1 without it.
fn cost(request: &Parts) -> u64 {
    let mut pairs = request.uri.query().unwrap_or("").split('&');
    let cost = pairs.find_map(|pair| pair.strip_prefix("cost="));
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(1)
}

fn setting(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}
