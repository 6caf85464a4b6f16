use super::*;

#[test]
fn digests_match_the_standards() {
    // FIPS 180-4 and RFC 1321 for `abc`.
    check("hash('abc')", r#""ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#);
    check("hash('abc', 'sha1')", r#""a9993e364706816aba3e25717850c26c9cd0d89d""#);
    check("hash('abc', 'md5')", r#""900150983cd24fb0d6963f7d28e17f72""#);
    check("hash('abc', 'sha512')[:16]", r#""ddaf35a193617aba""#);
    check("hash('abc', encoding='base64')", r#""ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=""#);
}

#[test]
fn hmacs_match_the_standards() {
    // RFC 4231, test case 2, and RFC 2202.
    let data = "'what do ya want for nothing?', 'Jefe'";
    check(&format!("hmac({data})"), r#""5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843""#);
    check(&format!("hmac({data}, algorithm='sha1')"), r#""effcdf6ae5eb2fa2d27416d5f184df9c259a7c79""#);
    check(&format!("hmac({data}, algorithm='md5')"), r#""750c783e6ab0b503eaa86e310a5db738""#);
    check(&format!("hmac({data}, algorithm='sha512')[:16]"), r#""164b7a7bfcf819e2""#);
    check("hmac('x', 'k' * 200, encoding='base64') | length", "44");
    check("hmac('x')", "error: the argument `key` of `hmac` is missing");
    check("hmac('x', '')", "error: `hmac`: `key` is empty");
}

#[test]
fn digests_accept_text_or_bytes() {
    check("hash(png, 'md5')", r#""f48eec4fab63795519d7a4d440d6c1a1""#);
    check("hash(7) == hash('7')", "true");
    check(
        "hash(list)",
        "error: `hash`: `data` is a list, not text or a file; `| tojson` converts it to text",
    );
    check(
        "hash(nothing)",
        "error: `hash`: `data` is null, not text or a file; `| default('', true)` replaces it",
    );
    check("hash(nothing | default('', true), 'md5')", r#""d41d8cd98f00b204e9800998ecf8427e""#);
}

#[test]
fn base64_encodes_and_decodes() {
    check("base64('hé?')", r#""aMOpPw==""#);
    check("base64(png)", r#""iVD/""#);
    check("base64(png, urlSafe=true)", r#""iVD_""#);
    check("base64('aMOpPw==', decode=true)", r#""hé?""#);
    check("base64('aMOp\\nPw', decode=true)", r#""hé?""#);
    check(
        "base64('iVD_', decode=true)",
        "error: `base64`: the decoded bytes are not UTF-8 text; `file(…, encoding='base64')` makes a file of them",
    );
    check("base64('a', decode=true)", "error: `base64`: `data` is not base64: Invalid input length: 1");
    check(
        "base64('!!!!', decode=true)",
        "error: `base64`: `data` is not base64: Invalid symbol 33, offset 0.",
    );
}

#[test]
fn urlencode_keeps_only_unreserved_characters() {
    check("urlencode('a b/c?d=é&~-._')", r#""a%20b%2Fc%3Fd%3D%C3%A9%26~-._""#);
    check(
        "urlencode({'q': 'a&b', 'page': 2, 'tag': list, 'none': nothing})",
        r#""q=a%26b&page=2&tag=a&tag=b""#,
    );
    check("urlencode({})", r#""""#);
    check("urlencode(list)", "error: `urlencode`: `data` is a list, not text or a map");
    check("urlencode({'a': {'b': 1}})", "error: `urlencode`: `a` is a map, which has no form in a query");
}

#[test]
fn files_are_created_from_text_bytes_and_base64() {
    check(
        "file('a,b', 'x.csv', 'text/csv')",
        r#"{"contentType":"text/csv","filename":"x.csv","size":3,"encoding":"utf8","data":"a,b"}"#,
    );
    check(
        "file('iVD/', encoding='base64')",
        r#"{"contentType":"application/octet-stream","size":3,"encoding":"base64","data":"iVD/"}"#,
    );
    check("file('é').contentType", r#""text/plain; charset=utf-8""#);
    check(
        "file(png, filename='other.png') | tojson",
        r#""{\"contentType\":\"image/png\",\"filename\":\"other.png\",\"size\":3,\"encoding\":\"base64\",\"data\":\"iVD/\"}""#,
    );
    check("file(png).filename", r#""dot.png""#);
    check(
        "file(list)",
        "error: `file`: `data` is a list, not text or a file; `| tojson` converts it to text",
    );
}

#[test]
fn content_types_and_names_that_break_a_header_are_rejected() {
    let wrong = |kind: &str| {
        format!("error: `file`: `contentType` is `{kind}`; it is one such as `text/csv` or `application/pdf`")
    };
    check("file('a', contentType='csv')", &wrong("csv"));
    check("file('a', contentType='text/csv\\r\\nx: y')", &wrong("text/csv  x: y"));
    check("file('a', contentType='text/csv; a=é')", &wrong("text/csv; a=é"));
    check(
        "file('a', filename='a\\nb')",
        "error: `file`: `filename` is `a b`; it has 1 to 255 bytes and no control characters",
    );
    check(
        "file('a', filename='')",
        "error: `file`: `filename` is ``; it has 1 to 255 bytes and no control characters",
    );
    check("file('a', contentType='text/csv; charset=utf-8').contentType", r#""text/csv; charset=utf-8""#);
}
