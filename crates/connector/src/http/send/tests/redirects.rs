//! The headers that a redirect takes along.

use pretty_assertions::assert_eq;

use super::*;

#[tokio::test]
async fn a_redirect_to_another_host_drops_the_credentials() {
    let target = Server::start(|_, _| reply("200 OK", b"here")).await;
    let to = target.url("/end");
    let server = Server::start(move |count, _| match count {
        0 => reply("302 Found\r\nlocation: /next", b""),
        _ => reply(&format!("307 Temporary Redirect\r\nlocation: {to}"), b""),
    })
    .await;
    let mut sent = request(Method::GET, &server.url("/first"));
    sent.set_header("x-api-key", &"also-secret".into()).expect("a header");
    sent.set_header("accept", &"text/plain".into()).expect("a header");
    let response = send_with(local(), &sent, Some(&connection(&server))).await.expect("an answer");
    assert_eq!(response.text(), "here");
    let [first, next] = &server.requests()[..] else { panic!("two requests") };
    assert!(first.contains("authorization: Bearer secret-token") && first.contains("x-api-key"), "{first}");
    assert!(next.starts_with("GET /next ") && next.contains("authorization: Bearer secret-token"), "{next}");
    let [end] = &target.requests()[..] else { panic!("one request") };
    assert!(end.contains("accept: text/plain"), "{end}");
    assert!(!end.contains("secret") && !end.contains("authorization"), "{end}");
    assert!(next.contains(PARENT) && !end.contains("traceparent"), "{end}");
}

#[tokio::test]
async fn a_redirect_to_another_host_and_back_keeps_only_three_headers() {
    let named = |request: &str| -> Vec<String> {
        let fields = request.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0.to_owned()));
        // The client sets the host and the encodings that it reads.
        let mut named: Vec<_> =
            fields.filter(|name| !matches!(&**name, "host" | "accept-encoding")).collect();
        named.sort();
        named
    };
    let other = Server::start(|_, request| {
        let home = request.split(' ').nth(1).unwrap_or_default();
        reply(&format!("302 Found\r\nlocation: http:/{home}/back"), b"")
    })
    .await;
    let to = other.url("");
    let home = Server::start(move |count, request| {
        let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        match count {
            0 => reply(&format!("302 Found\r\nlocation: {to}/{host}"), b""),
            _ => reply("200 OK", b"here"),
        }
    })
    .await;
    let mut sent = request(Method::GET, &home.url("/first"));
    for name in ["accept", "accept-language", "user-agent", "cookie", "referer", "if-none-match", "x-tenant"]
    {
        sent.set_header(name, &"x".into()).expect("a header");
    }
    let response = send_with(local(), &sent, Some(&connection(&home))).await.expect("an answer");
    assert_eq!(response.text(), "here");
    let [first, back] = &home.requests()[..] else { panic!("two requests") };
    for name in ["authorization", "cookie", "x-tenant", "traceparent", "x-cogwork-trace"] {
        assert!(named(first).iter().any(|found| found == name), "{first}");
    }
    assert!(back.starts_with("GET /back "), "{back}");
    let kept = ["accept", "accept-language", "user-agent"];
    assert_eq!(named(&other.requests()[0]), kept);
    assert_eq!(named(back), kept, "credentials do not come back");
}

#[tokio::test]
async fn a_redirect_out_of_the_base_path_drops_the_credentials() {
    for (location, keeps) in
        [("/v1/next", true), ("/v1", true), ("/v2/next", false), ("/v10", false), ("/v1/../x", false)]
    {
        let server = Server::start(move |count, _| match count {
            0 => reply(&format!("302 Found\r\nlocation: {location}"), b""),
            _ => reply("200 OK", b"here"),
        })
        .await;
        let connection = connection_below(&server, "/v1");
        let mut sent = request(Method::GET, &server.url("/v1/first"));
        sent.set_header("x-api-key", &"also-secret".into()).expect("a header");
        let response = send_with(local(), &sent, Some(&connection)).await.expect("an answer");
        assert_eq!(response.text(), "here");
        let [first, next] = &server.requests()[..] else { panic!("two requests") };
        assert!(first.contains("Bearer secret-token") && first.contains("also-secret"), "{first}");
        assert_eq!(next.contains("Bearer secret-token"), keeps, "{location}: {next}");
        assert_eq!(next.contains("also-secret"), keeps, "{location}: {next}");
    }
}
