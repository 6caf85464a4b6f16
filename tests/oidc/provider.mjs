/**
 * An OpenID Connect provider on this machine: `node provider.mjs <port> <redirect address>…`. Everyone logs in with the name that they type.
 * It prints its issuer once it listens.
 */

import Provider from "oidc-provider";

const [port, ...redirects] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
/** The people that have more than a name. */
const people = {
  ann: { email: "ann@example.com", email_verified: true, groups: ["ops"] },
  mallory: { email: "ann@example.com", email_verified: false, groups: ["guests"] },
};
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "cogwork",
      client_secret: "the-client-secret",
      redirect_uris: redirects,
      grant_types: ["authorization_code"],
      response_types: ["code"],
    },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["preferred_username", "groups"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id, ...people[id] }) }),
  pkce: { required: () => true },
  cookies: { keys: ["only for tests"] },
  features: { devInteractions: { enabled: true } },
});
provider.listen(Number(port), "127.0.0.1", () => console.log(issuer));
