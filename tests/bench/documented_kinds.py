"""Kinds of secrets as their issuers document them: one line each, and the places in which passwords stand.

A second corpus beside `planted_secrets.py`, written from the issuers' own pages and from what tools print, before
the product's rules were read. `documented_secrets.py` draws from it.
"""

from __future__ import annotations

# A form that names its issuer by itself: kind | issuer | form | name of a variable that holds it.
# In a form, {A36} is 36 letters and digits; the alphabets are those of `planted_secrets.ALPHABETS`.
MARKED = """
aws access key id|AWS|AKIA{216}|AWS_ACCESS_KEY_ID
aws temporary key id|AWS|ASIA{216}|AWS_ACCESS_KEY_ID
google api key|Google Maps|AIza{b35}|GOOGLE_MAPS_API_KEY
google oauth client secret|Google|GOCSPX-{b28}|GOOGLE_CLIENT_SECRET
google access token|Google|ya29.a0A{b160}|GOOGLE_ACCESS_TOKEN
google refresh token|Google|1//0{b60}|GOOGLE_REFRESH_TOKEN
azure client secret|Azure|{A3}8Q~{b34}|AZURE_CLIENT_SECRET
azure devops token|Azure DevOps|{A76}AZDO{A4}|AZURE_DEVOPS_EXT_PAT
github token|GitHub|ghp_{A36}|GITHUB_TOKEN
github fine-grained token|GitHub|github_pat_{A22}_{A59}|GH_TOKEN
github app token|GitHub|ghs_{A36}|GITHUB_TOKEN
github oauth token|GitHub|gho_{A36}|GH_TOKEN
gitlab token|GitLab|glpat-{b20}|GITLAB_TOKEN
gitlab trigger token|GitLab|glptt-{h40}|TRIGGER_TOKEN
gitlab runner token|GitLab|glrt-{b20}|RUNNER_TOKEN
gitlab deploy token|GitLab|gldt-{b20}|CI_DEPLOY_PASSWORD
bitbucket app password|Bitbucket|ATBB{A32}|BITBUCKET_APP_PASSWORD
atlassian token|Atlassian|ATATT3xFfGF0{b170}={H8}|JIRA_API_TOKEN
slack bot token|Slack|xoxb-{d12}-{d13}-{A24}|SLACK_BOT_TOKEN
slack user token|Slack|xoxp-{d12}-{d12}-{d13}-{h32}|SLACK_USER_TOKEN
slack app token|Slack|xapp-1-A{U10}-{d13}-{h64}|SLACK_APP_TOKEN
slack webhook|Slack|https://hooks.slack.com/services/T{U10}/B{U10}/{A24}|SLACK_WEBHOOK_URL
discord bot token|Discord|MT{A24}.G{A5}.{b38}|DISCORD_TOKEN
discord webhook|Discord|https://discord.com/api/webhooks/{d19}/{b68}|DISCORD_WEBHOOK
telegram bot token|Telegram|{d10}:AA{b33}|TELEGRAM_BOT_TOKEN
sendgrid key|SendGrid|SG.{b22}.{b43}|SENDGRID_API_KEY
mailgun key|Mailgun|key-{h32}|MAILGUN_API_KEY
mailgun new key|Mailgun|{h32}-{h8}-{h8}|MAILGUN_API_KEY
mailchimp key|Mailchimp|{h32}-us{d2}|MAILCHIMP_API_KEY
brevo key|Brevo|xkeysib-{h64}-{A16}|BREVO_API_KEY
resend key|Resend|re_{A8}_{A24}|RESEND_API_KEY
stripe secret key|Stripe|sk_live_{A99}|STRIPE_SECRET_KEY
stripe old secret key|Stripe|sk_live_{A24}|STRIPE_SECRET_KEY
stripe restricted key|Stripe|rk_live_{A99}|STRIPE_KEY
stripe webhook secret|Stripe|whsec_{A32}|STRIPE_WEBHOOK_SECRET
square access token|Square|EAAA{b60}|SQUARE_ACCESS_TOKEN
square oauth secret|Square|sq0csp-{b43}|SQUARE_APPLICATION_SECRET
braintree token|Braintree|access_token$production${a16}${h32}|BRAINTREE_ACCESS_TOKEN
shopify admin token|Shopify|shpat_{h32}|SHOPIFY_ACCESS_TOKEN
shopify app secret|Shopify|shpss_{h32}|SHOPIFY_API_SECRET
mollie key|Mollie|live_{A30}|MOLLIE_API_KEY
flutterwave key|Flutterwave|FLWSECK-{h32}-X|FLW_SECRET_KEY
shippo token|Shippo|shippo_live_{h40}|SHIPPO_TOKEN
easypost key|EasyPost|EZAK{A54}|EASYPOST_API_KEY
duffel token|Duffel|duffel_live_{b43}|DUFFEL_ACCESS_TOKEN
openai project key|OpenAI|sk-proj-{b74}T3BlbkFJ{b74}|OPENAI_API_KEY
openai old key|OpenAI|sk-{A20}T3BlbkFJ{A20}|OPENAI_API_KEY
openai service account key|OpenAI|sk-svcacct-{b74}T3BlbkFJ{b74}|OPENAI_API_KEY
anthropic key|Anthropic|sk-ant-api03-{b93}AA|ANTHROPIC_API_KEY
anthropic oauth token|Claude Code|sk-ant-oat01-{b93}AA|CLAUDE_CODE_OAUTH_TOKEN
hugging face token|Hugging Face|hf_{A34}|HF_TOKEN
replicate token|Replicate|r8_{A37}|REPLICATE_API_TOKEN
groq key|Groq|gsk_{A52}|GROQ_API_KEY
xai key|xAI|xai-{A80}|XAI_API_KEY
perplexity key|Perplexity|pplx-{A48}|PERPLEXITY_API_KEY
openrouter key|OpenRouter|sk-or-v1-{h64}|OPENROUTER_API_KEY
deepseek key|DeepSeek|sk-{h32}|DEEPSEEK_API_KEY
elevenlabs key|ElevenLabs|sk_{h48}|ELEVENLABS_API_KEY
pinecone key|Pinecone|pcsk_{A5}_{A62}|PINECONE_API_KEY
fireworks key|Fireworks|fw_{A24}|FIREWORKS_API_KEY
langsmith key|LangSmith|lsv2_pt_{h32}_{h10}|LANGSMITH_API_KEY
langfuse key|Langfuse|sk-lf-{uuid}|LANGFUSE_SECRET_KEY
nvidia key|NVIDIA|nvapi-{b64}|NVIDIA_API_KEY
cerebras key|Cerebras|csk-{a48}|CEREBRAS_API_KEY
tavily key|Tavily|tvly-dev-{A32}|TAVILY_API_KEY
firecrawl key|Firecrawl|fc-{h32}|FIRECRAWL_API_KEY
jina key|Jina|jina_{h32}{b28}|JINA_API_KEY
e2b key|E2B|e2b_{h40}|E2B_API_KEY
runpod key|RunPod|rpa_{U46}|RUNPOD_API_KEY
databricks token|Databricks|dapi{h32}|DATABRICKS_TOKEN
databricks versioned token|Databricks|dapi{h32}-2|DATABRICKS_TOKEN
supabase token|Supabase|sbp_{h40}|SUPABASE_ACCESS_TOKEN
supabase secret key|Supabase|sb_secret_{b22}_{b8}|SUPABASE_SECRET_KEY
planetscale token|PlanetScale|pscale_tkn_{b43}|PLANETSCALE_TOKEN
planetscale password|PlanetScale|pscale_pw_{b43}|DB_PASSWORD
neon key|Neon|napi_{a64}|NEON_API_KEY
netlify token|Netlify|nfp_{A36}|NETLIFY_AUTH_TOKEN
heroku key|Heroku|HRKU-AA{b58}|HEROKU_API_KEY
digitalocean token|DigitalOcean|dop_v1_{h64}|DIGITALOCEAN_TOKEN
digitalocean refresh token|DigitalOcean|dor_v1_{h64}|DO_REFRESH_TOKEN
cloudflare origin key|Cloudflare|v1.0-{h24}-{h146}|CF_ORIGIN_CA_KEY
fly token|Fly.io|FlyV1 fm2_{B120}|FLY_API_TOKEN
render key|Render|rnd_{A28}|RENDER_API_KEY
npm token|npm|npm_{A36}|NPM_TOKEN
pypi token|PyPI|pypi-AgEIcHlwaS5vcmc{b130}|TWINE_PASSWORD
rubygems key|RubyGems|rubygems_{h48}|GEM_HOST_API_KEY
crates token|crates.io|cio{A32}|CARGO_REGISTRY_TOKEN
nuget key|NuGet|oy2{a43}|NUGET_API_KEY
docker hub token|Docker Hub|dckr_pat_{b27}|DOCKERHUB_TOKEN
artifactory key|Artifactory|AKCp{A69}|ARTIFACTORY_API_KEY
clojars token|Clojars|CLOJARS_{h60}|CLOJARS_PASSWORD
vault token|Vault|hvs.CAES{b90}|VAULT_TOKEN
vault batch token|Vault|hvb.AAAAAQ{b130}|VAULT_TOKEN
terraform cloud token|Terraform Cloud|{A14}.atlasv1.{b65}|TF_API_TOKEN
pulumi token|Pulumi|pul-{h40}|PULUMI_ACCESS_TOKEN
doppler token|Doppler|dp.pt.{A43}|DOPPLER_TOKEN
doppler service token|Doppler|dp.st.prd.{A43}|DOPPLER_TOKEN
1password service token|1Password|ops_eyJ{b240}|OP_SERVICE_ACCOUNT_TOKEN
1password secret key|1Password|A3-{U6}-{U6}-{U5}-{U5}-{U5}-{U5}|OP_SECRET_KEY
age secret key|age|AGE-SECRET-KEY-1{U58}|SOPS_AGE_KEY
new relic user key|New Relic|NRAK-{U27}|NEW_RELIC_API_KEY
new relic licence key|New Relic|{h36}NRAL|NEW_RELIC_LICENSE_KEY
sentry org token|Sentry|sntrys_eyJ{b120}_{b43}|SENTRY_AUTH_TOKEN
sentry user token|Sentry|sntryu_{h64}|SENTRY_AUTH_TOKEN
grafana service token|Grafana|glsa_{A32}_{h8}|GRAFANA_TOKEN
grafana cloud token|Grafana Cloud|glc_eyJ{b110}=|GRAFANA_CLOUD_API_KEY
honeycomb key|Honeycomb|hcaik_01{a56}|HONEYCOMB_API_KEY
dynatrace token|Dynatrace|dt0c01.{U24}.{U64}|DT_API_TOKEN
linear key|Linear|lin_api_{A40}|LINEAR_API_KEY
notion token|Notion|ntn_{d11}{A35}|NOTION_TOKEN
notion old token|Notion|secret_{A43}|NOTION_API_KEY
airtable token|Airtable|pat{A14}.{h64}|AIRTABLE_TOKEN
asana token|Asana|2/{d16}/{d16}:{h32}|ASANA_ACCESS_TOKEN
figma token|Figma|figd_{b40}|FIGMA_TOKEN
hubspot token|HubSpot|pat-na1-{uuid}|HUBSPOT_ACCESS_TOKEN
postman key|Postman|PMAK-{h24}-{h34}|POSTMAN_API_KEY
mapbox secret token|Mapbox|sk.eyJ1Ijoi{b76}.{b22}|MAPBOX_SECRET_TOKEN
contentful token|Contentful|CFPAT-{b43}|CONTENTFUL_MANAGEMENT_TOKEN
posthog personal key|PostHog|phx_{A43}|POSTHOG_PERSONAL_API_KEY
launchdarkly key|LaunchDarkly|sdk-{uuid}|LAUNCHDARKLY_SDK_KEY
sonarqube token|SonarQube|sqp_{h40}|SONAR_TOKEN
circleci token|CircleCI|CCIPAT_{A22}_{h40}|CIRCLECI_TOKEN
buildkite token|Buildkite|bkua_{h40}|BUILDKITE_API_TOKEN
prefect key|Prefect|pnu_{A36}|PREFECT_API_KEY
sourcegraph token|Sourcegraph|sgp_{h16}_{h40}|SRC_ACCESS_TOKEN
axiom token|Axiom|xaat-{uuid}|AXIOM_TOKEN
dropbox token|Dropbox|sl.u.{b140}|DROPBOX_ACCESS_TOKEN
twitter bearer token|Twitter|AAAAAAAAAAAAAAAAAAAAA{A30}%3D{A45}|TWITTER_BEARER_TOKEN
facebook access token|Facebook|EAAG{A180}|FB_ACCESS_TOKEN
linkedin client secret|LinkedIn|WPL_AP1.{A16}.{A6}==|LINKEDIN_CLIENT_SECRET
plaid access token|Plaid|access-production-{uuid}|PLAID_ACCESS_TOKEN
alibaba key id|Alibaba Cloud|LTAI5t{A18}|ALIBABA_CLOUD_ACCESS_KEY_ID
yandex key|Yandex Cloud|AQVN{b36}|YC_API_KEY
tailscale auth key|Tailscale|tskey-auth-k{A9}CNTRL-{A32}|TS_AUTHKEY
tailscale api key|Tailscale|tskey-api-k{A9}CNTRL-{A32}|TAILSCALE_API_KEY
typeform token|Typeform|tfp_{b44}_{b14}|TYPEFORM_TOKEN
clickup token|ClickUp|pk_{d8}_{U32}|CLICKUP_API_TOKEN
readme key|ReadMe|rdme_{a70}|README_API_KEY
telnyx key|Telnyx|KEY0{H30}_{A22}|TELNYX_API_KEY
web token|the API|eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI{b60}.{b43}|ACCESS_TOKEN
bitcoin private key|Bitcoin|L{551}|WALLET_WIF
bitcoin extended key|Bitcoin|xprv9s21ZrQH143K{595}|WALLET_XPRV
wandb new key|Weights & Biases|wandb_v1_{A27}_{A48}|WANDB_API_KEY
square sandbox token|Square|sq0atp-{b22}|SQUARE_TOKEN
azure storage key|Azure Storage|{B76}+ASt{B5}Q==|AZURE_STORAGE_KEY
scalingo token|Scalingo|tk-us-{b48}|SCALINGO_API_TOKEN
"""

# No form of its own: a name beside it says what it is.
UNMARKED = """
aws secret key|AWS|{B40}|AWS_SECRET_ACCESS_KEY
azure openai key|Azure OpenAI|{h32}|AZURE_OPENAI_API_KEY
twilio auth token|Twilio|{h32}|TWILIO_AUTH_TOKEN
postmark token|Postmark|{uuid}|POSTMARK_SERVER_TOKEN
cohere key|Cohere|{A40}|COHERE_API_KEY
mistral key|Mistral|{A32}|MISTRAL_API_KEY
together key|Together|{h64}|TOGETHER_API_KEY
wandb key|Weights & Biases|{h40}|WANDB_API_KEY
deepgram key|Deepgram|{h40}|DEEPGRAM_API_KEY
vercel token|Vercel|{A24}|VERCEL_TOKEN
heroku old key|Heroku|{uuid}|HEROKU_API_KEY
railway token|Railway|{uuid}|RAILWAY_TOKEN
linode token|Linode|{h64}|LINODE_TOKEN
hetzner token|Hetzner|{A64}|HCLOUD_TOKEN
cloudflare token|Cloudflare|{b40}|CLOUDFLARE_API_TOKEN
cloudflare global key|Cloudflare|{h37}|CLOUDFLARE_API_KEY
fastly token|Fastly|{b32}|FASTLY_API_TOKEN
consul token|Consul|{uuid}|CONSUL_HTTP_TOKEN
nomad token|Nomad|{uuid}|NOMAD_TOKEN
datadog key|Datadog|{h32}|DD_API_KEY
datadog application key|Datadog|{h40}|DD_APP_KEY
pagerduty key|PagerDuty|u+{A18}|PAGERDUTY_API_KEY
opsgenie key|Opsgenie|{uuid}|OPSGENIE_API_KEY
rollbar token|Rollbar|{h32}|ROLLBAR_ACCESS_TOKEN
algolia admin key|Algolia|{h32}|ALGOLIA_ADMIN_KEY
trello token|Trello|ATTA{h64}{H8}|TRELLO_TOKEN
spotify secret|Spotify|{h32}|SPOTIFY_CLIENT_SECRET
twitch secret|Twitch|{a30}|TWITCH_CLIENT_SECRET
okta token|Okta|00{b40}|OKTA_API_TOKEN
auth0 secret|Auth0|{b64}|AUTH0_CLIENT_SECRET
plaid secret|Plaid|{h30}|PLAID_SECRET
binance secret|Binance|{A64}|BINANCE_API_SECRET
ethereum private key|Ethereum|0x{h64}|ETH_PRIVATE_KEY
snyk token|Snyk|{uuid}|SNYK_TOKEN
codecov token|Codecov|{uuid}|CODECOV_TOKEN
jenkins token|Jenkins|11{h32}|JENKINS_API_TOKEN
confluent secret|Confluent|{B64}|CONFLUENT_CLOUD_API_SECRET
alibaba secret|Alibaba Cloud|{A30}|ALIBABA_CLOUD_ACCESS_KEY_SECRET
ibm cloud key|IBM Cloud|{b44}|IBMCLOUD_API_KEY
scaleway secret|Scaleway|{uuid}|SCW_SECRET_KEY
vultr key|Vultr|{U36}|VULTR_API_KEY
backblaze key|Backblaze|K005{B27}|B2_APPLICATION_KEY
vonage secret|Vonage|{A16}|VONAGE_API_SECRET
pusher secret|Pusher|{h20}|PUSHER_APP_SECRET
todoist token|Todoist|{h40}|TODOIST_API_TOKEN
influxdb token|InfluxDB|{b86}==|INFLUX_TOKEN
openweather key|OpenWeather|{h32}|OPENWEATHER_API_KEY
virustotal key|VirusTotal|{h64}|VT_API_KEY
ngrok token|ngrok|2{A26}_{A21}|NGROK_AUTHTOKEN
razorpay secret|Razorpay|{A24}|RAZORPAY_KEY_SECRET
rails secret|Rails|{h128}|SECRET_KEY_BASE
rails master key|Rails|{h32}|RAILS_MASTER_KEY
django secret|Django|{A50}|DJANGO_SECRET_KEY
laravel key|Laravel|base64:{B43}=|APP_KEY
nextauth secret|NextAuth|{B43}=|NEXTAUTH_SECRET
jwt secret|the JWT|{b48}|JWT_SECRET
session secret|the session|{h64}|SESSION_SECRET
encryption key|the field encryption|{B43}=|ENCRYPTION_KEY
webhook secret|the webhook|{h40}|WEBHOOK_SECRET
upstash token|Upstash|AX{A50}=|UPSTASH_REDIS_REST_TOKEN
home assistant token|Home Assistant|{h64}|SUPERVISOR_TOKEN
ably key|Ably|{b6}.{b6}:{b43}|ABLY_API_KEY
plex token|Plex|{A20}|PLEX_TOKEN
"""

# Where an issuer's key stands, named or not: {t} the key, {v} its issuer, {E} its variable, {e} the same in lower
# case, {c} in camel case, {n} a number of a line.
PLACES_OF_MARKED = {
    "prose": (
        "I rotated the {v} key this morning, the new one is {t}.",
        "can you try the import again with {t}? the old one was revoked",
        "{t} <- this one is for staging, please don't commit it",
        "Someone pasted {t} into the ticket, so we have to revoke it at {v}.",
        "Der neue Schlüssel für {v} ist {t}, bitte trag ihn auf dem Server ein.",
        "Nimm für den Test {t}, der läuft am Freitag ab.",
        "La clave nueva de {v} es {t}, guárdala en el gestor.",
        "Usa {t} para las pruebas de {v} y avísame si falla.",
    ),
    "code": (
        'client = Client("{t}", timeout=30)',
        'const client = new Client({{ token: "{t}", region: "eu" }});',
        "os.environ.setdefault('{E}', '{t}')",
        'let key = std::env::var("{E}").unwrap_or("{t}".into());',
        'private static final String KEY = "{t}";',
        'func main() {{\n\tc := api.New("{t}")\n\tdefer c.Close()\n}}',
    ),
    "config": (
        "{E}={t}",
        'export {E}="{t}"',
        "services:\n  web:\n    environment:\n      - {E}={t}\n      - TZ=UTC",
        "{e}: {t}\nregion: eu-west-1",
        '{{"region": "eu", "{c}": "{t}"}}',
        '[service]\n{e} = "{t}"\ntimeout = 30',
        "ENV {E} {t}",
        "env:\n  - name: {E}\n    value: {t}",
        '<add key="{c}" value="{t}" />',
        'variable "{e}" {{\n  default = "{t}"\n}}',
    ),
    "log": (
        '2026-03-02T10:11:12Z DEBUG http.client request headers={{"authorization": "Bearer {t}"}} status=401',
        "[ERROR] upstream refused the credential {t} (HTTP 403)",
        'time="2026-03-02T10:11:12Z" level=info msg="config loaded" {e}={t} workers=4',
        "+ deploy --target prod --token {t}",
        "  File \"sync.py\", line {n}, in main\nValueError: bad token '{t}'",
    ),
    "listing": (
        "    {n}\u2192{E}={t}",
        "   {n}\t{c}: '{t}',",
        "config/prod.yaml:{n}:  {e}: {t}",
        "@@ -{n},3 +{n},3 @@\n-{E}=changeme\n+{E}={t}\n DEBUG=0",
        "{n}: const KEY = '{t}';",
    ),
    "command": (
        'curl -s -H "Authorization: Bearer {t}" https://api.example.com/v1/me',
        "curl 'https://api.example.com/v1/items?key={t}&limit=5'",
        "docker run -e {E}={t} -p 8080:80 app:latest",
        "gh secret set {E} --body '{t}'",
        "echo {t} | login --with-token",
    ),
}
PLACES_OF_UNMARKED = {
    "prose": (
        "The {v} API key is {t}, it expires in May.",
        "for {v} use this token: {t}",
        "our {v} secret changed, it's now {t}",
        "Der API-Schlüssel für {v} lautet {t}.",
        "Das Token für {v} ist {t}, bitte nicht weitergeben.",
        "La clave de API de {v} es {t}.",
        "El token de {v}: {t}",
    ),
    "code": (
        "os.environ['{E}'] = '{t}'",
        'const {c} = "{t}";',
        'process.env.{E} = "{t}";',
        '{e} = "{t}"  # TODO move to the vault',
        'client = Client({e}="{t}", retries=3)',
    ),
    "config": (
        "{E}={t}",
        'export {E}="{t}"',
        "environment:\n  {E}: {t}\n  TZ: UTC",
        '{{"{c}": "{t}", "retries": 3}}',
        '{e} = "{t}"',
        'env:\n  - name: {E}\n    value: "{t}"',
        '<add key="{c}" value="{t}" />',
        "ENV {E} {t}",
    ),
    "log": (
        'time="2026-03-02T10:11:12Z" level=info msg="config loaded" {e}={t} workers=4',
        "DEBUG settings: {{'{e}': '{t}', 'debug': True}}",
        "  {E} => {t}",
    ),
    "listing": (
        "    {n}\u2192{E}={t}",
        "  {n}\t  {c}: '{t}',",
        "deploy/.env:{n}:{E}={t}",
        "@@ -{n},2 +{n},2 @@\n-{E}=\n+{E}={t}",
    ),
    "command": (
        "docker run --rm -e {E}={t} app:latest",
        "{E}={t} make deploy",
        "fly secrets set {E}={t}",
        "kubectl create secret generic app --from-literal={E}={t}",
        "heroku config:set {E}={t} --app shop",
    ),
}

# A password ({p}), in its own place: kind | language or form | text. {u} is a user, {h} a host, {n} a number.
# ruff: noqa: E501
PASSWORDS = r"""
password in prose|prose|the password for the staging box is {p}
password in prose|prose|I set the admin password to {p} for now, change it after the demo
password in prose|prose|pw: {p}
password in prose|prose|Log in as {u} with password {p} and open the settings.
password in prose|prose|user: {u}, pass: {p}
password in prose|prose|creds are {u} / {p}
password in prose|prose|My password is "{p}", can you check why ssh refuses it?
passwort in prose|prose|Das Passwort für {h} lautet {p}
passwort in prose|prose|Kennwort: {p}
passwort in prose|prose|Melde dich als {u} mit dem Passwort {p} an.
passwort in prose|prose|Zugangsdaten: {u} / {p}
contraseña in prose|prose|La contraseña de {h} es {p}
contraseña in prose|prose|usuario: {u}, contraseña: {p}
contraseña in prose|prose|Entra con la clave {p} y el usuario {u}.
wifi password|prose|The wifi in the office is called Nordlicht, password {p}
wifi password|config|network={{\n  ssid="Nordlicht"\n  psk="{p}"\n}}
wifi password|command|nmcli dev wifi connect Nordlicht password '{p}'
postgres url|config|DATABASE_URL=postgresql://{u}:{p}@{h}:5432/shop
mysql url|code|engine = create_engine("mysql+pymysql://{u}:{p}@{h}/shop")
mongodb url|config|mongo_uri: mongodb+srv://{u}:{p}@cluster0.ab1cd.mongodb.net/shop?retryWrites=true
redis url|log|connecting to rediss://:{p}@{h}:6380/0
amqp url|config|amqp://{u}:{p}@{h}:5672/%2f
ftp url|command|wget ftp://{u}:{p}@{h}/dump.tar.gz
git url|command|git clone https://{u}:{p}@git.{h}/team/app.git
proxy url|config|export https_proxy=http://{u}:{p}@{h}:3128
smtp url|config|MAILER_DSN=smtp://{u}:{p}@{h}:587
jdbc url|config|spring.datasource.url=jdbc:postgresql://{h}/shop?user={u}&password={p}
jdbc oracle url|config|url=jdbc:oracle:thin:{u}/{p}@{h}:1521:XE
sql server connection|code|var cs = "Server={h};Database=shop;User Id={u};Password={p};Encrypt=true";
odbc connection|code|pyodbc.connect('DRIVER={{ODBC Driver 18 for SQL Server}};SERVER={h};UID={u};PWD={p}')
libpq connection|code|psycopg.connect("host={h} dbname=shop user={u} password={p}")
curl user|command|curl -u {u}:{p} https://{h}/api/items
curl user|command|curl --user '{u}:{p}' -X POST https://{h}/api/items
wget password|command|wget --user={u} --password={p} https://{h}/backup.zip
httpie auth|command|http -a {u}:{p} GET https://{h}/api
mysql option|command|mysql -h {h} -u {u} -p{p} shop
mysqldump option|command|mysqldump --user={u} --password={p} shop > shop.sql
pgpassword|command|PGPASSWORD={p} psql -h {h} -U {u} shop
redis option|command|redis-cli -h {h} -a {p} ping
mongosh option|command|mongosh --host {h} -u {u} -p {p} shop
sshpass option|command|sshpass -p '{p}' ssh {u}@{h} uptime
docker login|command|docker login -u {u} -p {p} registry.{h}
docker login|command|echo '{p}' | docker login -u {u} --password-stdin
openssl pass|command|openssl enc -d -aes-256-cbc -in dump.enc -pass pass:{p}
zip option|command|zip -P {p} -r out.zip data/
7z option|command|7z x backup.7z -p{p}
ldapsearch option|command|ldapsearch -x -D cn=admin,dc=example -w {p} -b dc=example
smbclient option|command|smbclient //{h}/share -U {u}%{p}
keytool option|command|keytool -list -keystore app.jks -storepass {p}
chpasswd|command|echo "{u}:{p}" | sudo chpasswd
windows user|command|net user {u} {p} /add
powershell secure string|code|$pw = ConvertTo-SecureString "{p}" -AsPlainText -Force
htpasswd option|command|htpasswd -b /etc/nginx/.htpasswd {u} {p}
sqlcmd option|command|sqlcmd -S {h} -U sa -P '{p}' -Q "select 1"
rsync password|command|RSYNC_PASSWORD={p} rsync -a rsync://{u}@{h}/data .
restic password|config|export RESTIC_PASSWORD="{p}"
xfreerdp option|command|xfreerdp /v:{h} /u:{u} /p:{p}
minio alias|command|mc alias set local http://{h}:9000 {u} {p}
create user|code|CREATE USER {u} WITH PASSWORD '{p}';
alter role|code|ALTER ROLE {u} WITH LOGIN ENCRYPTED PASSWORD '{p}';
identified by|code|CREATE USER '{u}'@'%' IDENTIFIED BY '{p}';
sql server login|code|CREATE LOGIN {u} WITH PASSWORD = N'{p}';
netrc|config|machine {h}\n  login {u}\n  password {p}
netrc on one line|listing|    {n}→machine {h} login {u} password {p}
pgpass|config|# ~/.pgpass\n{h}:5432:shop:{u}:{p}
my.cnf|config|[client]\nuser={u}\npassword="{p}"\nhost={h}
npmrc password|config|//npm.{h}/:_password={b}\n//npm.{h}/:username={u}
maven settings|config|<server>\n  <id>releases</id>\n  <username>{u}</username>\n  <password>{p}</password>\n</server>
yaml password|config|database:\n  host: {h}\n  user: {u}\n  password: {p}
yaml password|listing|   {n}→    password: "{p}"
json password|config|{{"host": "{h}", "user": "{u}", "password": "{p}"}}
escaped json password|log|payload="{{\"user\":\"{u}\",\"password\":\"{p}\"}}"
toml password|config|[smtp]\nhost = "{h}"\npassword = "{p}"
ini password|config|[smtp]\nuser = {u}\npasswd = {p}
properties password|config|spring.datasource.password={p}
php define|code|define('DB_PASSWORD', '{p}');
php array|code|'connections' => ['mysql' => ['username' => '{u}', 'password' => '{p}']],
wordpress salt|code|define('AUTH_KEY',         '{s}');
python keyword|code|conn = connect(host="{h}", user="{u}", password="{p}")
python tuple|code|session.auth = ("{u}", "{p}")
requests auth|code|requests.get(url, auth=("{u}", "{p}"), timeout=5)
javascript object|code|const db = {{ user: '{u}', pass: '{p}', host: '{h}' }};
ruby hash|code|Net::SSH.start("{h}", "{u}", password: "{p}")
ruby rocket|code|ActiveRecord::Base.establish_connection(:username => "{u}", :password => "{p}")
go struct|code|redis.NewClient(&redis.Options{{Addr: "{h}:6379", Password: "{p}"}})
java setter|code|dataSource.setPassword("{p}");
basic header|log|> Authorization: Basic {ub}
basic header|code|headers = {{"Authorization": "Basic {ub}"}}
log of a login|log|INFO auth: login attempt user={u} password={p} ip=10.0.0.7
form body|log|POST /login HTTP/1.1 body: username={u}&password={p}&remember=1
query parameter|log|GET /feed?user={u}&passwd={p} 200 12ms
ansible variable|config|ansible_become_pass: {p}
ansible variable|command|ansible-playbook site.yml -e "db_password={p}"
terraform variable|command|terraform apply -var 'db_password={p}'
helm value|command|helm upgrade shop ./chart --set postgresql.auth.password={p}
compose variable|config|    environment:\n      MYSQL_ROOT_PASSWORD: {p}\n      MYSQL_DATABASE: shop
dockerfile variable|listing|{n}: ENV POSTGRES_PASSWORD={p}
kubernetes string data|config|kind: Secret\nstringData:\n  password: {p}
kubernetes data|config|kind: Secret\ndata:\n  password: {b}\n  username: YWRtaW4=
sudo prompt|log|[sudo] password for {u}: {p}
expect script|code|expect "assword:"\nsend "{p}\r"
passphrase in prose|prose|the passphrase of the backup key is {p}
passphrase option|command|gpg --batch --passphrase '{p}' -d dump.gpg
keyring answer|log|Password for '{u}' on '{h}': {p}
mail in prose|prose|Hi, your account {u} is ready. Temporary password: {p}
table of accounts|prose|| user | password |\n|---|---|\n| {u} | {p} |
pin in prose|prose|the PIN of the door is {d6}
rest secret name|config|client_secret={b}
hidden in yaml list|config|users:\n  - name: {u}\n    passwd: {p}
luks prompt|log|Enter passphrase for /dev/sda3: {p}
vnc|command|x11vnc -passwd {p} -display :0
oauth form|command|curl -d 'grant_type=password&username={u}&password={p}' https://{h}/token
snowflake|code|snowflake.connector.connect(user="{u}", password="{p}", account="ab12345")
rabbitmq|command|rabbitmqctl add_user {u} {p}
mosquitto|command|mosquitto_pub -h {h} -u {u} -P {p} -t home -m on
cifs mount|command|mount -t cifs //{h}/share /mnt -o username={u},password={p}
fstab credentials|config|//{h}/share /mnt cifs user={u},pass={p},uid=1000 0 0
wireguard key|config|[Interface]\nPrivateKey = {w}\nAddress = 10.0.0.2/32
wireguard key|command|wg set wg0 private-key <(echo {w})
azure storage connection|config|AZURE_STORAGE_CONNECTION_STRING="DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={k}==;EndpointSuffix=core.windows.net"
azure service bus connection|config|Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={w}
azure shared access signature|prose|the file is at https://shop.blob.core.windows.net/x/a.csv?sv=2024-11-04&se=2026-09-01&sp=r&sig={q}%3D
azure subscription header|log|Ocp-Apim-Subscription-Key: {h32}
api key header|command|curl -H 'X-API-Key: {h32}' https://{h}/v1/items
auth token header|log|> X-Auth-Token: {h32}
gitlab header|command|curl --header "PRIVATE-TOKEN: {a20}" https://git.{h}/api/v4/projects
api key header of azure|log|api-key: {h32}
token header|log|Authorization: Token {h40}
splunk header|command|curl https://{h}:8088/services/collector -H "Authorization: Splunk {uuid}" -d '{{}}'
elastic header|command|curl -H "Authorization: ApiKey {b60}" https://{h}:9200/_search
okta header|log|Authorization: SSWS 00{a20}{a20}
digest cookie|log|Cookie: sessionid={a32}; theme=dark
set cookie|log|< Set-Cookie: session={b60}; Path=/; HttpOnly
csrf and session|code|cookies = {{"sessionid": "{a32}"}}
signed s3 url|log|GET https://b.s3.amazonaws.com/x?X-Amz-Credential=x&X-Amz-Signature={h64} 200
access token in url|log|GET /me?access_token={a32}&fields=id 200
api key in url|command|curl 'https://api.{h}/data/2.5/weather?q=Bern&appid={h32}'
infura url|code|const provider = new JsonRpcProvider("https://mainnet.infura.io/v3/{h32}");
alchemy url|config|RPC_URL=https://eth-mainnet.g.alchemy.com/v2/{a32}
npmrc token|config|//registry.npmjs.org/:_authToken={uuid}
docker config|config|{{"auths": {{"registry.{h}": {{"auth": "{ub}"}}}}}}
kubeconfig token|config|users:\n- name: admin\n  user:\n    token: {b60}
kubeconfig key|config|users:\n- name: admin\n  user:\n    client-key-data: {pem64}
cloudinary url|config|CLOUDINARY_URL=cloudinary://773861075053224:{a27}@shop
sentry dsn with secret|config|SENTRY_DSN=https://4f1c0a9e7b2d4c6f8a3e5d7c9b1f0e2d:{h32b}@sentry.{h}/42
totp url|log|otpauth://totp/Shop:{u}?secret={o}&issuer=Shop
totp in prose|prose|my 2FA secret is {o}, scan it with the app
cloudflared token|command|cloudflared tunnel run --token eyJhIjoi{b60}
ngrok command|command|ngrok config add-authtoken 2{a26}_{a21}
aws credentials file|config|[default]\naws_access_key_id = AKIA{i}\naws_secret_access_key = {k40}
aws configure|command|aws configure set aws_secret_access_key {k40}
aws session token|config|export AWS_SESSION_TOKEN=FwoGZXIvYXdzE{b60}{b60b}==
bitwarden token|config|BWS_ACCESS_TOKEN=0.{uuid}.{a30}:{w}
ghost key|config|GHOST_ADMIN_API_KEY={h24}:{h64}
uuid token in prose|prose|The API token for the status page is {uuid}.
uuid token in prose|prose|Use the token {uuid} when you call the deploy hook.
recovery codes|prose|My recovery codes: {r}
seed phrase|prose|my seed phrase is: {m12}
seed phrase|prose|Die Wiederherstellungswörter meiner Wallet: {m12}
seed phrase|config|MNEMONIC="{m12}"
seed phrase of 24|log|Recovery phrase (24 words):\n{m24}
seed phrase in spanish prose|prose|mi frase semilla es {m12}
salesforce token|log|sid=00D{a15}!{b60}; Path=/
teams webhook|config|TEAMS_WEBHOOK=https://shop.webhook.office.com/webhookb2/{uuid}@{uuidb}/IncomingWebhook/{h32}/{uuidc}
irc password|command|/msg NickServ identify {p}
telegram mtproto|code|api_id = 1234567\napi_hash = "{h32}"
mqtt config|config|username {u}\npassword {p}
vpn secrets|config|{u} : EAP "{p}"
ipsec psk|config|{h} %any : PSK "{p}"
git credentials|config|https://{u}:{a20}@github.com
sops env|config|STRIPE_KEY=sk_test_{a24}
"""
