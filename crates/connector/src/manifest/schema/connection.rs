//! The part of the schema about connection types and their credentials.

use serde_json::{Value, json};

use super::parts::{flag, map_of, name, named, object, one_or_more, put, schema_of, text, words};

pub(super) fn connection() -> Value {
    let basic = object(&[
        ("*user", schema_of("inputNames"), "The input with the user's name."),
        (
            "*password",
            schema_of("inputNames"),
            "The input with the password, or several, of which the first one that is given counts.",
        ),
    ]);
    let sigv4 = object(&[
        ("*service", text(), "The name of the service in signatures, such as `sqs`."),
        ("*region", name(), "The input with the region."),
        ("*accessKey", name(), "The input with the id of the key."),
        ("*secretKey", name(), "The input with the secret key."),
        ("sessionToken", name(), "The input with the token of temporary keys."),
    ]);
    let path = object(&[
        ("*value", schema_of("inputNames"), "The input with the value."),
        ("prefix", json!({"type": "string"}), "The text before the value."),
    ]);
    let mut auth = object(&[
        ("basic", basic, "User name and password (RFC 7617)."),
        ("bearer", schema_of("inputNames"), "The input with the token (RFC 6750)."),
        ("header", one_or_more(schema_of("credentialField")), "A header with the key, or several."),
        (
            "query",
            one_or_more(schema_of("credentialField")),
            "A parameter of the query with the key, or several.",
        ),
        ("path", path, "A segment of the path with the key, right after the address."),
        ("sigv4", sigv4, "A signature of each request (AWS Signature Version 4)."),
        ("oauth2", oauth(), "OAuth 2.0: tokens after a person's consent, or for the client itself."),
        ("session", session(), "A login, whose token goes into each further request."),
        ("none", json!({"default": true}), "No credentials."),
    ]);
    put(&mut auth, "minProperties", json!(1));
    put(&mut auth, "maxProperties", json!(1));
    let mut address = object(&[
        ("input", name(), "The input with the address."),
        ("strip", text(), "A path that the address may end in and that is taken away."),
        (
            "none",
            json!({"const": true}),
            "There is no address: no action sends requests with the connection.",
        ),
    ]);
    put(&mut address, "oneOf", json!([{"required": ["input"]}, {"required": ["none"]}]));
    object(&[
        ("*title", text(), "The title, in one line."),
        ("description", text(), "Further information for authors."),
        ("*inputs", named(schema_of("connectionInput")), "The inputs of a connection."),
        ("baseUrl", address, "The input with the address, if the connector has none."),
        ("*auth", auth, "How credentials are sent."),
        (
            "test",
            object(&[
                ("*action", name(), "An action of this connector that changes nothing."),
                ("with", json!({"type": "object"}), "Its inputs."),
            ]),
            "A cheap call that shows whether a connection works.",
        ),
        (
            "words",
            map_of(name()),
            "Words of choices and answers that a connection can rename, each with the input that has the service's word.",
        ),
        ("requestId", name(), "The input with the name of the header that holds the service's request id."),
        ("headers", name(), "The input, a map of texts, with headers of every request."),
    ])
}

pub(super) fn credential_field() -> Value {
    let mut field = object(&[
        ("name", text(), "The name of the header or parameter."),
        ("nameFrom", name(), "The input with the name."),
        ("*value", schema_of("inputNames"), "The input with the value."),
        ("prefix", json!({"type": "string"}), "The text before the value."),
        ("optional", flag(), "`true`: it is left out if the input has no value. Default: false."),
    ]);
    put(&mut field, "oneOf", json!([{"required": ["name"]}, {"required": ["nameFrom"]}]));
    field
}

fn oauth() -> Value {
    let sites = object(&[
        ("*list", text(), "The path of the list of sites at the connection's address."),
        ("*choice", name(), "The input with the name or the address of the site; default: the first site."),
        ("*slug", name(), "The input with the product's word in paths: `/ex/<slug>/<id>`."),
        ("*product", name(), "The input with the product's word in scopes."),
        ("*word", text(), "The word in the default scopes that the product's word replaces."),
        ("paths", map_of(text()), "Paths of a site that have another name at the connection's address."),
    ]);
    object(&[
        (
            "*grant",
            words(&["authorizationCode", "clientCredentials", "jwtBearer"]),
            "A person consents, the client's own credentials are sufficient, or it signs an assertion (RFC 7523), as service accounts do.",
        ),
        ("server", name(), "The input with the base of the identity provider, for the two paths."),
        ("authorizePath", text(), "The path of the consent page."),
        ("tokenPath", text(), "The path that issues tokens."),
        ("authorizeUrl", name(), "The input with the complete address of the consent page."),
        ("tokenUrl", name(), "The input with the complete address that issues tokens."),
        ("clientId", name(), "The input with the client's id."),
        ("clientSecret", name(), "The input with the client's secret."),
        ("key", name(), "Of `jwtBearer`: the input with the private RSA key, PKCS #8 in PEM."),
        ("subject", name(), "Of `jwtBearer`: the input with the account that the issuer acts for."),
        (
            "clientAuth",
            words(&["body", "basic", "jwt"]),
            "The proof of the client in token requests: its id and secret in the body or in the header `Authorization`, or an assertion (RFC 7523) that the key in `clientSecret` signs. Default: body.",
        ),
        ("keyId", name(), "Of `clientAuth: jwt`: the input with the id of the key, `kid`."),
        (
            "certificate",
            name(),
            "Of `clientAuth: jwt`: the input with the certificate in PEM, whose SHA-256 is `x5t#S256`.",
        ),
        ("tokenParameters", map_of(text()), "Further fields of token requests."),
        ("scopes", name(), "The input with the scopes, separated by spaces."),
        (
            "moreScopes",
            object(&[
                ("*input", name(), "The boolean input."),
                ("*scopes", text(), "The scopes, separated by spaces."),
            ]),
            "Further scopes to request if an input is true.",
        ),
        (
            "audience",
            name(),
            "The input with the address whose host is the `audience`; of `jwtBearer`: the input with the audience. Default there: the address that issues tokens.",
        ),
        (
            "issuer",
            name(),
            "The input with the provider's name in its answers (`iss`, RFC 9207); of `jwtBearer`: the input with the issuer of the assertion.",
        ),
        ("parameters", map_of(text()), "Further parameters of the consent page's address."),
        ("request", words(&["form", "json"]), "The form of token requests. Default: form."),
        ("sites", sites, "The sites behind a gateway, if one token opens several."),
    ])
}

fn session() -> Value {
    let mut token = object(&[("body", text(), "A path in the body."), ("header", text(), "A header.")]);
    put(&mut token, "minProperties", json!(1));
    put(&mut token, "maxProperties", json!(1));
    let send = object(&[
        ("*header", text(), "The header."),
        ("prefix", json!({"type": "string"}), "The text before the token."),
    ]);
    object(&[
        (
            "*request",
            text(),
            "The request line of the login: a method, and a path below the address of the connection.",
        ),
        (
            "*inputs",
            map_of(text()),
            "The inputs of the connection with their places: `body path.in.it` or `header Name`.",
        ),
        ("encoding", words(&["json", "form"]), "The encoding of the body. Default: json."),
        ("*token", token, "Where the answer has the token."),
        (
            "expires",
            text(),
            "The path in the answer to the end of the session: seconds, or an instant. Default: it ends when the service refuses the token.",
        ),
        ("send", send, "The header of further requests. Default: `Authorization: Bearer TOKEN`."),
    ])
}
