"""Secrets made by chance in the forms that their issuers document, in the surroundings in which people paste them.

Nothing here is taken from the product's own table: what is measured on it must not be made by it.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

LETTERS = string.ascii_letters
ALPHABETS = {
    "A": LETTERS + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "L": string.ascii_lowercase,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": string.digits,
    "b": LETTERS + string.digits + "-_",
    "B": LETTERS + string.digits + "+/",
    "5": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",  # base58
    "2": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",  # base32
}
_DRAWN = re.compile(r"\{([A-Za-z25])(\d+)(?:-(\d+))?\}")


@dataclass(frozen=True, slots=True)
class Planted:
    """A text with one secret in it: none of `pieces` may be found in any byte afterwards."""

    kind: str
    family: str
    surrounding: str
    text: str
    pieces: tuple[str, ...]


# kind, form, the variable it is kept in, the words that people say. `{A32}`: 32 drawn from the alphabet A.
ISSUED = """
aws-access-key-id | AKIA{2}16 | AWS_ACCESS_KEY_ID | AWS key id
aws-temporary-id | ASIA{2}16 | AWS_ACCESS_KEY_ID | AWS key id
aws-secret | {B40} | AWS_SECRET_ACCESS_KEY | AWS secret access key
aws-bedrock | ABSK{B130}= | AWS_BEARER_TOKEN_BEDROCK | Bedrock API key
github-classic | ghp_{A36} | GITHUB_TOKEN | GitHub token
github-oauth | gho_{A36} | GH_TOKEN | GitHub token
github-server | ghs_{A36} | GITHUB_TOKEN | GitHub app token
github-refresh | ghr_{A76} | GITHUB_REFRESH_TOKEN | GitHub refresh token
github-fine-grained | github_pat_{A22}_{A59} | GITHUB_PAT | GitHub token
gitlab-personal | glpat-{b20} | GITLAB_TOKEN | GitLab token
gitlab-deploy | gldt-{b20} | CI_DEPLOY_PASSWORD | deploy token
gitlab-trigger | glptt-{h40} | TRIGGER_TOKEN | pipeline trigger token
gitlab-runner | glrt-{b20} | RUNNER_TOKEN | runner token
gitlab-runner-old | GR1348941{b20} | REGISTRATION_TOKEN | runner registration token
gitlab-feed | glft-{b20} | FEED_TOKEN | feed token
slack-bot | xoxb-{d12}-{d13}-{A24} | SLACK_BOT_TOKEN | Slack bot token
slack-user | xoxp-{d12}-{d12}-{d13}-{h32} | SLACK_TOKEN | Slack token
slack-app | xapp-1-A{U10}-{d13}-{h64} | SLACK_APP_TOKEN | Slack app token
slack-webhook | https://hooks.slack.com/services/T{U10}/B{U10}/{A24} | SLACK_WEBHOOK_URL | Slack webhook
discord-bot | M{A23}.{b6}.{b38} | DISCORD_TOKEN | Discord bot token
discord-webhook | https://discord.com/api/webhooks/{d18}/{b68} | DISCORD_WEBHOOK | Discord webhook
telegram-bot | {d10}:AA{b33} | TELEGRAM_BOT_TOKEN | Telegram bot token
stripe-secret | sk_live_{A24} | STRIPE_SECRET_KEY | Stripe key
stripe-secret-long | sk_live_51{A97} | STRIPE_SECRET_KEY | Stripe key
stripe-restricted | rk_live_{A24} | STRIPE_API_KEY | Stripe restricted key
stripe-webhook | whsec_{A32} | STRIPE_WEBHOOK_SECRET | webhook signing secret
openai-project | sk-proj-{b124} | OPENAI_API_KEY | OpenAI key
openai-old | sk-{A20}T3BlbkFJ{A20} | OPENAI_API_KEY | OpenAI key
openai-service | sk-svcacct-{b120} | OPENAI_API_KEY | OpenAI key
anthropic | sk-ant-api03-{b93}AA | ANTHROPIC_API_KEY | Anthropic key
anthropic-admin | sk-ant-admin01-{b93}AA | ANTHROPIC_ADMIN_KEY | Anthropic admin key
openrouter | sk-or-v1-{h64} | OPENROUTER_API_KEY | OpenRouter key
huggingface | hf_{A34} | HF_TOKEN | Hugging Face token
replicate | r8_{A37} | REPLICATE_API_TOKEN | Replicate token
perplexity | pplx-{A48} | PERPLEXITY_API_KEY | Perplexity key
xai | xai-{A80} | XAI_API_KEY | xAI key
groq | gsk_{A52} | GROQ_API_KEY | Groq key
cohere | {A40} | COHERE_API_KEY | Cohere API key
mistral | {A32} | MISTRAL_API_KEY | Mistral API key
deepseek | sk-{h32} | DEEPSEEK_API_KEY | DeepSeek key
fireworks | fw_{A24} | FIREWORKS_API_KEY | Fireworks key
tavily | tvly-dev-{A32} | TAVILY_API_KEY | Tavily key
elevenlabs | sk_{h48} | ELEVENLABS_API_KEY | ElevenLabs key
nvidia | nvapi-{b64} | NVIDIA_API_KEY | NVIDIA key
langsmith | lsv2_pt_{h32}_{h10} | LANGCHAIN_API_KEY | LangSmith key
wandb | {h40} | WANDB_API_KEY | W&B API key
pinecone | pcsk_{A6}_{A63} | PINECONE_API_KEY | Pinecone key
npm | npm_{A36} | NPM_TOKEN | npm token
pypi | pypi-AgEIcHlwaS5vcmc{b150} | TWINE_PASSWORD | PyPI token
rubygems | rubygems_{h48} | GEM_HOST_API_KEY | RubyGems key
cargo | cio{A32} | CARGO_REGISTRY_TOKEN | crates.io token
nuget | oy2{a43} | NUGET_API_KEY | NuGet API key
docker-hub | dckr_pat_{b27} | DOCKER_TOKEN | Docker Hub token
twilio-key | SK{h32} | TWILIO_API_KEY | Twilio API key
twilio-token | {h32} | TWILIO_AUTH_TOKEN | Twilio auth token
sendgrid | SG.{b22}.{b43} | SENDGRID_API_KEY | SendGrid key
mailgun | key-{h32} | MAILGUN_API_KEY | Mailgun key
mailgun-new | {h32}-{h8}-{h8} | MAILGUN_API_KEY | Mailgun API key
mailchimp | {h32}-us{d2} | MAILCHIMP_API_KEY | Mailchimp API key
brevo | xkeysib-{h64}-{A16} | BREVO_API_KEY | Brevo key
postmark | {uuid} | POSTMARK_SERVER_TOKEN | Postmark server token
resend | re_{A8}_{A24} | RESEND_API_KEY | Resend key
heroku | {uuid} | HEROKU_API_KEY | Heroku API key
heroku-new | HRKU-AA{b58} | HEROKU_API_KEY | Heroku API key
digitalocean | dop_v1_{h64} | DIGITALOCEAN_TOKEN | DigitalOcean token
digitalocean-oauth | doo_v1_{h64} | DO_TOKEN | DigitalOcean token
google-api | AIza{b35} | GOOGLE_API_KEY | Google API key
google-oauth | ya29.{b120} | GOOGLE_OAUTH_TOKEN | access token
google-client-secret | GOCSPX-{b28} | GOOGLE_CLIENT_SECRET | client secret
firebase-fcm | AAAA{b7}:APA91b{b134} | FCM_SERVER_KEY | FCM server key
azure-storage | {B86}== | AZURE_STORAGE_KEY | storage account key
azure-sas | https://acme.blob.core.windows.net/up?sv=2024-11-04&ss=b&se=2026-12-01&sig={B43}%3D | SAS_URL | SAS URL
azure-client-secret | {A3}8Q~{A34} | AZURE_CLIENT_SECRET | Azure client secret
azure-devops | {a52} | AZURE_DEVOPS_EXT_PAT | Azure DevOps PAT
azure-openai | {h32} | AZURE_OPENAI_API_KEY | Azure OpenAI key
cloudflare-token | {b40} | CLOUDFLARE_API_TOKEN | Cloudflare API token
cloudflare-key | {h37} | CLOUDFLARE_API_KEY | Cloudflare global API key
cloudflare-origin-ca | v1.0-{h24}-{h146} | CLOUDFLARE_CA_KEY | origin CA key
vercel | {A24} | VERCEL_TOKEN | Vercel token
netlify | nfp_{A36} | NETLIFY_AUTH_TOKEN | Netlify token
fly | fo1_{b43} | FLY_API_TOKEN | Fly token
fly-macaroon | fm2_lJPECAAAAAAA{B120} | FLY_API_TOKEN | Fly token
railway | {uuid} | RAILWAY_TOKEN | Railway token
render | rnd_{A28} | RENDER_API_KEY | Render key
supabase | sbp_{h40} | SUPABASE_ACCESS_TOKEN | Supabase token
supabase-secret | sb_secret_{b31} | SUPABASE_SECRET_KEY | Supabase secret key
planetscale | pscale_tkn_{b43} | PLANETSCALE_TOKEN | PlanetScale token
neon | napi_{a64} | NEON_API_KEY | Neon key
linear | lin_api_{A40} | LINEAR_API_KEY | Linear key
notion | ntn_{A46} | NOTION_TOKEN | Notion token
notion-old | secret_{A43} | NOTION_API_KEY | Notion integration token
atlassian | ATATT3xFfGF0{b170}={H8} | JIRA_API_TOKEN | Jira token
bitbucket | ATBB{A32} | BITBUCKET_APP_PASSWORD | Bitbucket app password
figma | figd_{b40} | FIGMA_TOKEN | Figma token
airtable | pat{A14}.{h64} | AIRTABLE_API_KEY | Airtable token
asana | 2/{d16}/{d16}:{h32} | ASANA_TOKEN | Asana token
shopify-admin | shpat_{h32} | SHOPIFY_ACCESS_TOKEN | Shopify token
shopify-secret | shpss_{h32} | SHOPIFY_API_SECRET | Shopify secret
square | sq0atp-{b22} | SQUARE_TOKEN | Square token
square-new | EAAA{b60} | SQUARE_ACCESS_TOKEN | Square access token
paypal-braintree | access_token$production${a16}${h32} | BRAINTREE_TOKEN | Braintree token
doppler | dp.st.prd.{A43} | DOPPLER_TOKEN | Doppler token
doppler-personal | dp.pt.{A43} | DOPPLER_TOKEN | Doppler token
vault | hvs.{b95} | VAULT_TOKEN | Vault token
vault-batch | hvb.{b150} | VAULT_TOKEN | Vault token
terraform | {A14}.atlasv1.{b67} | TFE_TOKEN | Terraform Cloud token
pulumi | pul-{h40} | PULUMI_ACCESS_TOKEN | Pulumi token
databricks | dapi{h32} | DATABRICKS_TOKEN | Databricks token
newrelic-user | NRAK-{U27} | NEW_RELIC_API_KEY | New Relic key
newrelic-license | {h36}FFFFNRAL | NEW_RELIC_LICENSE_KEY | New Relic license key
datadog-api | {h32} | DD_API_KEY | Datadog API key
datadog-app | {h40} | DD_APP_KEY | Datadog app key
grafana-service | glsa_{A32}_{h8} | GRAFANA_TOKEN | Grafana token
grafana-cloud | glc_{B100} | GRAFANA_CLOUD_TOKEN | Grafana Cloud token
sentry-org | sntrys_{B120}_{B43} | SENTRY_AUTH_TOKEN | Sentry token
sentry-user | sntryu_{h64} | SENTRY_AUTH_TOKEN | Sentry token
sentry-old | {h64} | SENTRY_AUTH_TOKEN | Sentry auth token
honeycomb | hcaik_{a58} | HONEYCOMB_API_KEY | Honeycomb key
dynatrace | dt0c01.{U24}.{U64} | DT_API_TOKEN | Dynatrace token
pagerduty | u+{b18} | PAGERDUTY_TOKEN | PagerDuty API token
postman | PMAK-{h24}-{h34} | POSTMAN_API_KEY | Postman key
tailscale | tskey-auth-{A12}CNTRL-{A32} | TS_AUTHKEY | Tailscale auth key
tailscale-api | tskey-api-{A12}CNTRL-{A32} | TAILSCALE_API_KEY | Tailscale key
onepassword | ops_eyJ{b250} | OP_SERVICE_ACCOUNT_TOKEN | service account token
facebook | EAA{A170} | FB_ACCESS_TOKEN | Facebook access token
twitter-bearer | AAAAAAAAAAAAAAAAAAAAA{A70}%3D{A20} | TWITTER_BEARER_TOKEN | Twitter bearer token
linkedin | WPL_AP1.{A16}.{A8} | LINKEDIN_CLIENT_SECRET | LinkedIn client secret
algolia | {h32} | ALGOLIA_ADMIN_KEY | Algolia admin API key
mapbox | sk.eyJ1{A60}.{A22} | MAPBOX_SECRET_TOKEN | Mapbox token
segment | sgp_{A64} | SEGMENT_TOKEN | Segment token
launchdarkly | sdk-{uuid} | LAUNCHDARKLY_SDK_KEY | LaunchDarkly SDK key
contentful | CFPAT-{b43} | CONTENTFUL_MANAGEMENT_TOKEN | Contentful token
typeform | tfp_{b59} | TYPEFORM_TOKEN | Typeform token
hubspot | pat-na1-{uuid} | HUBSPOT_TOKEN | HubSpot token
clickup | pk_{d8}_{U32} | CLICKUP_TOKEN | ClickUp token
circleci | CCIPAT_{A22}_{h40} | CIRCLE_TOKEN | CircleCI token
buildkite | bkua_{h40} | BUILDKITE_TOKEN | Buildkite token
sonar | sqp_{h40} | SONAR_TOKEN | Sonar token
snyk | {uuid} | SNYK_TOKEN | Snyk token
artifactory | AKCp{A69} | ARTIFACTORY_API_KEY | Artifactory key
harness | pat.{b22}.{h24}.{A20} | HARNESS_API_KEY | Harness token
prefect | pnu_{a36} | PREFECT_API_KEY | Prefect key
duffel | duffel_live_{b43} | DUFFEL_TOKEN | Duffel token
plaid | access-production-{uuid} | PLAID_ACCESS_TOKEN | Plaid token
adyen | AQE{A100} | ADYEN_API_KEY | Adyen API key
ssh-age | AGE-SECRET-KEY-1{U58} | SOPS_AGE_KEY | age key
hetzner | {A64} | HCLOUD_TOKEN | Hetzner token
zapier-webhook | https://hooks.zapier.com/hooks/catch/{d8}/{a7}abcdefgh/ | ZAPIER_HOOK | Zapier webhook
teams-webhook | https://a.webhook.office.com/webhookb2/{uuid}@{uuid}/Incoming/{h32}/{uuid} | TEAMS | Teams webhook
django | django-insecure-{a50} | SECRET_KEY | Django secret key
rails-master | {h32} | RAILS_MASTER_KEY | Rails master key
jwt | {jwt} | ACCESS_TOKEN | access token
""".strip()

PROSE = (
    "the {said} is {s}",
    "here's the {said}: {s}",
    "please use {s} as the {said} and redeploy",
    "I rotated the {said} yesterday, the new one is {s}, tell nobody.",
    "{said} {s} expired again",
    "Our {said} ({s}) no longer works on staging",
    "my {said} was `{s}` before",
    "Can you check why this fails? {said}: {s}",
)
CODE = (
    '{name} = "{s}"',
    "export {name}={s}",
    "const client = new Client({{ {camel}: '{s}' }});",
    "{lower}: {s}",
    '{{"{lower}": "{s}", "region": "eu"}}',
    "os.environ['{name}'] = '{s}'",
    "- name: {name}\n  value: {s}",
    '  {name}: "{s}"  # prod',
    "docker run -e {name}={s} acme/api:1.4",
    "tool login --token {s}",
    'curl -sH "Authorization: Bearer {s}" https://api.acme.dev/v1/me',
)
LOGS = (
    "2026-11-20T12:01:02Z INFO starting worker {lower}={s} region=eu",
    "DEBUG request headers={{'Authorization': 'Bearer {s}', 'Accept': '*/*'}}",
    "GET https://api.acme.dev/v1/items?access_token={s}&page=2 401",
    "[error] invalid credential for {name}: {s} (403)",
    '{{"level":"debug","msg":"config","{camel}":"{s}"}}',
)
LISTINGS = (
    "     1→# settings\n     2→{name}={s}\n     3→DEBUG=0",
    "12: {name} = '{s}'\n13: TIMEOUT = 5",
    '.env:3:{name}="{s}"',
    "+{name}={s}\n-{name}=old",
    "| {name} | {s} |\n| REGION | eu |",
    '        "Env": [\n            "{name}={s}",\n            "PATH=/usr/bin"\n        ],',
)
FAMILIES = {"prose": PROSE, "code": CODE, "logs": LOGS, "listings": LISTINGS}


def corpus(size: int = 400, seed: int = 11) -> list[Planted]:
    """Return about `size` texts, every kind in it at least twice, always the same for a seed."""
    rng = random.Random(seed)
    kinds: list[Callable[[int], Planted]] = [*_issued(rng), *_typed(rng)]
    planted = [kind(number) for kind in kinds for number in range(max(2, size // len(kinds)))]
    planted += [rng.choice(kinds)(rng.randrange(50)) for _ in range(size - len(planted))]
    return planted


def _issued(rng: random.Random) -> Iterator[Callable[[int], Planted]]:
    for at, line in enumerate(ISSUED.splitlines()):
        kind, form, name, said = (part.strip() for part in line.split(" | "))

        def make(
            number: int, at: int = at, kind: str = kind, form: str = form, name: str = name, said: str = said
        ) -> Planted:
            secret = drawn(form, rng)
            surrounding = list(FAMILIES)[(at + number) % len(FAMILIES)]
            words = name.lower().split("_")
            text = rng.choice(FAMILIES[surrounding]).format(
                s=secret,
                name=name,
                lower=name.lower(),
                camel=words[0] + "".join(map(str.title, words[1:])),
                said=said,
            )
            return Planted(kind, "issued", surrounding, text, (secret,))

        yield make


def drawn(form: str, rng: random.Random) -> str:
    """Return a form with its places filled by chance."""
    form = re.sub(r"\{2\}(\d+)", lambda found: "".join(rng.choices(ALPHABETS["2"], k=int(found[1]))), form)
    while "{uuid}" in form:
        form = form.replace("{uuid}", str(uuid.UUID(int=rng.getrandbits(128), version=4)), 1)
    form = form.replace("{jwt}", _jwt(rng)) if "{jwt}" in form else form
    return _DRAWN.sub(lambda found: "".join(rng.choices(ALPHABETS[found[1]], k=int(found[2]))), form)


def _jwt(rng: random.Random) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": str(rng.getrandbits(40)), "iat": rng.getrandbits(31)})
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join((*coded, drawn("{b43}", rng)))


# ---- what people choose and type

WORDS = "hedgehog lantern copper violet saddle marble tundra pepper walnut harbor comet meadow".split()


def password(rng: random.Random) -> str:
    """Return a password as people and their managers make them."""
    word = rng.choice(WORDS)
    return rng.choice(
        (
            f"{word.title()}{rng.randrange(10, 9999)}!",
            f"{word[:4]}{rng.choice('!@#%&*')}{rng.choice(WORDS)}{rng.randrange(100)}",
            drawn("{A16}", rng) + str(rng.randrange(10)),
            drawn("{A6}{d1}-{A5}{d1}-{A6}", rng),
            "".join(rng.choices(LETTERS + string.digits + "!#%^*_+-", k=18)) + "7q",
        )
    )


TYPED = {
    "mysql-p": "mysql -u root -p{p} shop < dump.sql",
    "mysqldump-p": "mysqldump -h db.acme.dev -uadmin -p{p} --all-databases | gzip > all.gz",
    "redis-a": "redis-cli -h cache.acme.dev -a {p} FLUSHALL",
    "curl-u": "curl -u deploy:{p} https://nexus.acme.dev/repository/raw/",
    "curl-user": "curl --user 'admin:{p}' -X POST https://ci.acme.dev/build",
    "wget": "wget --user=ops --password={p} https://files.acme.dev/a.tgz",
    "sshpass": "sshpass -p '{p}' ssh root@10.0.4.7 uptime",
    "psql-env": "PGPASSWORD={p} psql -h db -U app -c 'select 1'",
    "docker-login": "docker login registry.acme.dev -u ci -p {p}",
    "identified-by": "CREATE USER 'app'@'%' IDENTIFIED BY '{p}';",
    "with-password": "ALTER ROLE app WITH PASSWORD '{p}';",
    "xml": "<server><username>ci</username><password>{p}</password></server>",
    "netrc": "machine api.acme.dev\n  login ci\n  password {p}",
    "netrc-line": "machine git.acme.dev login bob password {p}",
    "pgpass": "db.acme.dev:5432:shop:app:{p}",
    "password-line": "Password:\n{p}\n",
    "password-is": "the password is {p}, don't share it",
    "password-for": "the password for the staging box is {p}",
    "login-pair": "login: ops / password: {p}",
    "yaml": "db:\n  user: app\n  password: {p}\n  host: db",
    "ini": "[smtp]\nuser = mailer\npassword = {p}\n",
    "env-listing": "     4→DB_USER=app\n     5→DB_PASSWORD={p}\n     6→DB_HOST=db",
    "python": 'conn = connect(host="db", user="app", password="{p}")',
    "json": '{{"username": "app", "password": "{p}"}}',
    "url": "DATABASE_URL=postgres://app:{u}@db.acme.dev:5432/shop",
    "amqp": "celery -b amqp://worker:{u}@mq.acme.dev:5672//",
    "redis-url": "cache = Redis.from_url('redis://:{u}@cache:6379/0')",
    "mongo": "mongodb+srv://svc:{u}@cluster0.ab1cd.mongodb.net/app?retryWrites=true",
    "jdbc": "jdbc:mysql://db:3306/shop?user=app&password={u}",
    "smtp-log": "2026-11-20 10:00:01 smtp auth user=mailer password={p} ok",
    "basic-auth": "Authorization: Basic {basic}",
    "docker-config": '{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{basic}"}}}}}}',
    "npmrc": "//registry.acme.dev/:_authToken={A36}",
    "npmrc-auth": "//npm.acme.dev/:_password={base}",
    "wifi": "the wifi password is {p}",
    "passphrase": "passphrase: {w} {w} {w} {w} {d2}",
    "german": "das Passwort lautet {p}",
    "spanish": "la contraseña es {p}",
    "pin": "use the master password {p} to open it",
    "seed-phrase": "my seed phrase: legal winner thank year wave sausage worth useful legal winner thank yellow",
    "connection-string": "Server=tcp:acme.database.windows.net;User ID=sa;Password={p};Encrypt=True",
    "azure-connection": "AccountName=acme;AccountKey={B86}==;EndpointSuffix=core.windows.net",
    "htpasswd": "htpasswd -b /etc/nginx/.htpasswd bob {p}",
    "ansible": "ansible_become_pass: {p}",
    "session-cookie": "Cookie: sessionid={a32}; csrftoken={A64}",
    "api-key-header": "curl -H 'X-Api-Key: {A40}' https://api.acme.dev/v1/x",
    "kube-token": "kubectl config set-credentials ci --token={b200}",
    "hex-secret": "JWT_SECRET={h64}",
    "session-secret": "SESSION_SECRET: '{A48}'",
    "encryption-key": "ENCRYPTION_KEY={B43}=",
}


def _typed(rng: random.Random) -> Iterator[Callable[[int], Planted]]:
    for kind, form in TYPED.items():

        def make(number: int, kind: str = kind, form: str = form) -> Planted:
            _, _, after = form.partition("{p}") if "{p}" in form else form.partition("{u}")
            if after or "{p}" in form or "{u}" in form:
                secret = password(rng) if "{p}" in form else re.sub(r"[^A-Za-z0-9!*_-]", "x", password(rng))
                return Planted(
                    kind,
                    "typed",
                    "typed",
                    form.replace("{p}", secret).replace("{u}", secret).replace("{{", "{").replace("}}", "}"),
                    (secret,),
                )
            if kind == "seed-phrase":
                return Planted(kind, "typed", "typed", form, ("legal winner thank year wave",))
            secret_form = re.search(r"(?:\{(?:basic|base|w|[A-Za-z25]\d+)\}[= ]*)+", form)
            assert secret_form is not None
            pair = base64.b64encode(f"deploy:{password(rng)}".encode()).decode()
            pieces = []
            text = form
            for place in re.findall(r"\{(?:basic|base|[A-Za-z25]\d+)\}", form):
                value = pair if place in ("{basic}", "{base}") else drawn(place, rng)
                text = text.replace(place, value, 1)
                pieces.append(value)
            if "{w}" in form:
                phrase = " ".join(rng.sample(WORDS, 4))
                text = text.replace("{w} {w} {w} {w}", phrase)
                pieces = [phrase]
            return Planted(kind, "typed", "typed", text.replace("{{", "{").replace("}}", "}"), tuple(pieces))

        yield make

    for kind, block in BLOCKS.items():

        def make_block(
            number: int, kind: str = kind, block: Callable[[random.Random], tuple[str, tuple[str, ...]]] = block
        ) -> Planted:
            text, pieces = block(rng)
            return Planted(kind, "block", "listing", text, pieces)

        yield make_block


def _pem_lines(rng: random.Random, size: int = 600, width: int = 64) -> list[str]:
    body = base64.b64encode(rng.randbytes(size)).decode()
    return [body[at : at + width] for at in range(0, len(body), width)]


def _pem(kind: str, numbered: str = "", width: int = 64) -> Callable[[random.Random], tuple[str, tuple[str, ...]]]:
    def make(rng: random.Random) -> tuple[str, tuple[str, ...]]:
        body = _pem_lines(rng, width=width)
        lines = ["-----BEGIN " + f"{kind}-----", *body, "-----END " + f"{kind}-----"]
        if numbered:
            lines = [numbered.format(n=n, line=line) for n, line in enumerate(lines, 1)]
        return "cat ~/.ssh/key\n" + "\n".join(lines) + "\nthat was it", tuple(line for line in body if len(line) > 20)

    return make


def _coded_pem(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    text, _ = _pem("RSA PRIVATE KEY")(rng)
    coded = base64.b64encode(text.partition("\n")[2].encode()).decode()
    return f"KEY_B64={coded}", (coded[40:100], coded[-100:-40])


def _kubeconfig(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    coded = base64.b64encode(
        ("-----BEGIN " + "EC PRIVATE KEY-----\n" + "\n".join(_pem_lines(rng, 300))).encode()
    ).decode()
    text = (
        f"users:\n- name: admin\n  user:\n    client-certificate-data: LS0tLS1CRUdJTg\n    client-key-data: {coded}\n"
    )
    return text, (coded[40:100], coded[-60:])


def _putty(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    public, private = _pem_lines(rng, 300), _pem_lines(rng, 300)
    lines = [
        "PuTTY-User-Key-File-3: ssh-rsa",
        "Encryption: none",
        "Comment: bob@laptop",
        f"Public-Lines: {len(public)}",
    ]
    lines += [*public, f"Private-Lines: {len(private)}", *private, "Private-MAC: " + drawn("{h64}", rng)]
    return "\n".join(lines), tuple(line for line in private if len(line) > 20)


def _json_key(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    body = _pem_lines(rng)
    key = "\\n".join(("-----BEGIN " + "PRIVATE KEY-----", *body, "-----END " + "PRIVATE KEY-----", ""))
    return f'{{"type": "service_account", "private_key_id": "x", "private_key": "{key}"}}', tuple(
        line for line in body if len(line) > 20
    )


def _wireguard(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    key = base64.b64encode(rng.randbytes(32)).decode()
    return f"[Interface]\nPrivateKey = {key}\nAddress = 10.0.0.2/32", (key,)


BLOCKS: dict[str, Callable[[random.Random], tuple[str, tuple[str, ...]]]] = {
    "pem-rsa": _pem("RSA PRIVATE KEY"),
    "pem-pkcs8": _pem("PRIVATE KEY"),
    "pem-openssh": _pem("OPENSSH PRIVATE KEY", width=70),
    "pem-encrypted": _pem("ENCRYPTED PRIVATE KEY"),
    "pem-read-listing": _pem("RSA PRIVATE KEY", "{n:6d}→{line}"),
    "pem-cat-n": _pem("EC PRIVATE KEY", "{n:6d}\t{line}"),
    "pem-grep": _pem("PRIVATE KEY", "id_rsa:{n}:{line}"),
    "pem-diff": _pem("RSA PRIVATE KEY", "+{line}"),
    "pem-quoted": _pem("RSA PRIVATE KEY", "> {line}"),
    "pem-yaml": _pem("PRIVATE KEY", "    {line}"),
    "pgp": _pem("PGP PRIVATE KEY BLOCK"),
    "pem-base64": _coded_pem,
    "kubeconfig": _kubeconfig,
    "putty": _putty,
    "service-account": _json_key,
    "wireguard": _wireguard,
}
