"""The shapes that issuers of keys have given them: issuer, form, and where the form alone is no proof, words beside it.

A form is literal text with places: `<A36>` is 36 characters of the alphabet A, `<b20-50>` 20 to 50, `<h40+>` 40 or
more, `<o>` a short word or nothing. The alphabets: A letters and digits, a small ones, U capitals, d digits,
h hexadecimal, b A with `-` and `_`, B A with `+` and `/`, the others as in `shapes`. Of the words, one
stands within `shapes.BESIDE_CHARS` of the key.

The facts are those of the issuers' own documentation and of keys that they issue; a length that they do not promise is
given as a range. A new issuer is one line here: the patterns, and their test, come from it.
"""

from __future__ import annotations

from typing import Final

ISSUERS: Final = """
# --- clouds and hosting
aws | A3T<U17>
aws | AKIA<U16>
aws | ASIA<U16>
aws | ABIA<U16>
aws | ACCA<U16>
aws | ABSK<B100-300>
aws | bedrock-api-key-<b60+>
aws | <B40> | aws, secret access key, secretaccesskey
google | AIza<b35>
google | ya29.<b20+>
google | 1//0<b30+>
google | GOCSPX-<b20+>
google | AAAA<b7>:APA91b<b100+>
aws | IQoJb3JpZ2lu<B200+>
azure | <A3><d1>Q~<b31-40>
azure | sig=<B43>= | sv=, se=, sp=
azure | sig=<c40-60>%3D | sv=, se=, sp=
azure | <B76>+ASt<B6>==
azure | <A76>AZDO<A4>
azure | AccountKey=<B80-90>==
azure | SharedAccessKey=<B40-50>=
digitalocean | dop_v1_<h64>
digitalocean | doo_v1_<h64>
digitalocean | dor_v1_<h64>
heroku | HRKU-<b30-80>
cloudflare | v1.0-<h24>-<h100+>
cloudflare | <b40> | cloudflare
cloudflare | cfut_<b40+>
cloudflare | cfat_<b40+>
vercel | <A24> | vercel
vercel | vcp_<A20+>
vercel | vca_<A20+>
vercel | vck_<A20+>
vercel | vercel_blob_rw_<A16>_<A20+>
netlify | nfp_<A36+>
netlify | nfo_<A36+>
netlify | nfc_<A36+>
netlify | nfb_<A36+>
fly | fo1_<b40+>
fly | fm1_<B80+>
fly | fm1a_<B80+>
fly | fm2_<B80+>
render | rnd_<A26-40>
linode | <h64> | linode
hetzner | <A64> | hetzner, hcloud
scaleway | SCW<U17>
scalingo | tk-us-<b40+>
alibaba | LTAI<A12-20>
tencent | AKID<A32>
yandex | AQVN<b35-38>
yandex | t1.<b20+>.<b60+>
# --- code hosts, continuous integration, packages
github | ghp_<A36+>
github | gho_<A36+>
github | ghu_<A36+>
github | ghs_<A36+>
github | ghr_<A36+>
github | github_pat_<w22+>
gitlab | glpat-<b20+>
gitlab | gldt-<b20+>
gitlab | glptt-<b20+>
gitlab | glrt-<b20+>
gitlab | glrtr-<b20+>
gitlab | glft-<b20+>
gitlab | glimt-<b20+>
gitlab | glagent-<b40+>
gitlab | glsoat-<b20+>
gitlab | gloas-<b40+>
gitlab | glcbt-<b20+>
gitlab | glffct-<b20+>
gitlab | glwt-<b20+>
gitlab | GR1348941<b20+>
bitbucket | ATBB<A24-36>
bitbucket | ATCTT3xFf<c100+>
npm | npm_<A36>
pypi | pypi-<b50+>
rubygems | rubygems_<h48>
crates.io | cio<A32>
nuget | oy2<a43>
clojars | CLOJARS_<h60>
docker | dckr_pat_<b20+>
docker | dckr_oat_<b20+>
jfrog | AKCp<A60-80>
circleci | CCIPAT_<A16-30>_<h40>
circleci | CCIPRJ_<A16-30>_<h40>
buildkite | bkua_<h40>
buildkite | bkct_<A30+>
sonar | sqp_<h40>
sonar | squ_<h40>
sonar | sqa_<h40>
snyk | snyk_uat.<b8>.<b40+>
harness | pat.<b22>.<h24>.<A20>
harness | sat.<b22>.<h24>.<A20>
octopus | API-<U25-32>
terraform | <A14>.atlasv1.<b60-70>
pulumi | pul-<h40>
prefect | pnu_<a36>
prefect | pnb_<a36>
launchdarkly | sdk-<h8>-<h4>-<h4>-<h4>-<h12>
readme | rdme_<a70>
postman | PMAK-<h24>-<h34>
postman | PMAT-<U26>
# --- secrets, identities, networks
hashicorp | hvs.<b24+>
hashicorp | hvb.<b100+>
hashicorp | hvr.<b24+>
hashicorp | s.<A24> | vault
doppler | dp.pt.<A40-44>
doppler | dp.st.<o><A40-44>
doppler | dp.sa.<A40-44>
doppler | dp.ct.<A40-44>
doppler | dp.scim.<A40-44>
doppler | dp.audit.<A40-44>
1password | ops_eyJ<b100+>
1password | A3-<U6>-<U6>-<U5>-<U5>-<U5>
1password | A3-<U6>-<U11>-<U5>-<U5>-<U5>
infisical | st.<h24>.<h32>.<h32>
age | AGE-SECRET-KEY-1<U50+>
age | AGE-SECRET-KEY-PQ-1<U50+>
tailscale | tskey-<o><b16+>
jwk | "d":"<b40+>" | "kty"
jwk | "d": "<b40+>" | "kty"
bitcoin | xprv<A100-112>
bitcoin | 5<A50> | wif, wallet, bitcoin, btc
bitcoin | K<A51> | wif, wallet, bitcoin, btc
bitcoin | L<A51> | wif, wallet, bitcoin, btc
ethereum | infura.io/v3/<h32>
ethereum | infura.io/ws/v3/<h32>
ethereum | g.alchemy.com/v2/<b20+>
ethereum | quiknode.pro/<h40>
jwt | eyJ<b13+>.eyJ<b8+>.<b8+>
jwt | eyJ<b13+>..<b8+>.<b8+>.<b16+>
# --- language models
anthropic | sk-ant-<b20+>
openai | sk-proj-<b40+>
openai | sk-svcacct-<b40+>
openai | sk-admin-<b40+>
openai | sk-<b20+>
openrouter | sk-or-v1-<h64>
huggingface | hf_<A30+>
huggingface | api_org_<A34>
replicate | r8_<A37>
perplexity | pplx-<A40-60>
xai | xai-<A70+>
groq | gsk_<A40+>
fireworks | fw_<A20-30>
nvidia | nvapi-<b60-70>
tavily | tvly-<o><A20+>
langsmith | lsv2_pt_<h32>_<h10>
langsmith | lsv2_sk_<h32>_<h10>
langfuse | sk-lf-<h8>-<h4>-<h4>-<h4>-<h12>
pinecone | pcsk_<w60+>
elevenlabs | sk_<h48>
cerebras | csk-<a40+>
together | tgp_v1_<b40+>
jina | jina_<b50+>
voyage | pa-<b40+>
wandb | <h40> | wandb, w&b, weights
wandb | wandb_v1_<b40+>
firecrawl | fc-<h32>
e2b | e2b_<h40>
runpod | rpa_<U40+>
deepgram | <h40> | deepgram
# --- money
stripe | sk_live_<A16+>
stripe | sk_test_<A16+>
stripe | rk_live_<A16+>
stripe | rk_test_<A16+>
stripe | whsec_<B20+>
square | sq0atp-<b22>
square | sq0csp-<b43>
square | EAAA<b56-64>
paypal | access_token$production$<a16>$<h32>
paypal | access_token$sandbox$<a16>$<h32>
plaid | access-production-<h8>-<h4>-<h4>-<h4>-<h12>
plaid | access-sandbox-<h8>-<h4>-<h4>-<h4>-<h12>
plaid | access-development-<h8>-<h4>-<h4>-<h4>-<h12>
adyen | AQE<A80+>
duffel | duffel_live_<b40+>
duffel | duffel_test_<b40+>
razorpay | rzp_live_<A14>
mollie | live_<A30>
flutterwave | FLWSECK-<h32>-X
flutterwave | FLWSECK_TEST-<h32>-X
paystack | sk_live_<h40>
lob | live_<h35>
easypost | EZAK<A54>
easypost | EZTK<A54>
shippo | shippo_live_<h40>
shippo | shippo_test_<h40>
# --- messages and mail
slack | xoxb-<b20+>
slack | xoxp-<b20+>
slack | xoxa-<b20+>
slack | xoxr-<b20+>
slack | xoxs-<b20+>
slack | xoxc-<b20+>
slack | xoxd-<c20+>
slack | xoxe-<b20+>
slack | xoxe.xoxp-<b20+>
slack | xoxe.xoxb-<b20+>
slack | xapp-<d1>-<b20+>
slack | xwfp-<b20+>
slack | hooks.slack.com/services/<p24+>
slack | hooks.slack.com/workflows/<p24+>
slack | hooks.slack.com/triggers/<p24+>
discord | discord.com/api/webhooks/<d17-20>/<b60-70>
discord | discordapp.com/api/webhooks/<d17-20>/<b60-70>
discord | M<b23-27>.<b6>.<b27-40>
discord | N<b23-27>.<b6>.<b27-40>
discord | O<b23-27>.<b6>.<b27-40>
telegram | <h32> | api_hash
telegram | <d8-10>:AA<b32-35>
teams | webhook.office.com/webhookb2/<q36+>
zapier | hooks.zapier.com/hooks/catch/<d5-10>/<a6-16>
make | hook.eu1.make.com/<a20+>
make | hook.us1.make.com/<a20+>
ifttt | maker.ifttt.com/trigger/<q20+>
google | chat.googleapis.com/v1/spaces/<q30+>
telnyx | KEY<h30-34>_<A22>
twilio | SK<h32>
twilio | <h32> | twilio
sendgrid | SG.<b16+>.<b16+>
mailgun | key-<a32>
mailgun | <h32>-<h8>-<h8>
mailchimp | <h32>-us<d1-2>
brevo | xkeysib-<h64>-<A16>
brevo | xsmtpsib-<h64>-<A16>
resend | re_<w24+>
postmark | <h8>-<h4>-<h4>-<h4>-<h12> | postmark
customer.io | <h32> | customer.io, customerio
onesignal | os_v2_app_<a100+>
# --- watching
newrelic | NRAK-<U27>
newrelic | NRJS-<h19>
newrelic | NRAA-<h27>
newrelic | NRII-<b32>
newrelic | <h36>FFFFNRAL
newrelic | <h36>NRAL
datadog | <h32> | datadog, dd_api, dd-api
datadog | <h40> | datadog, dd_app, dd-application
datadog | ddapp_<A34>
grafana | glsa_<A32>_<h8>
grafana | glc_<B50+>
grafana | eyJrIjoi<b50+>
sentry | sntrys_<B60+>
sentry | sntryu_<h64>
sentry | <h64> | sentry
honeycomb | hcaik_<a50-60>
honeycomb | hcxik_<a50-60>
honeycomb | hcalk_<a50-60>
dynatrace | dt0c01.<U24>.<U64>
dynatrace | dt0s16.<U8>.<U64>
pagerduty | u+<b18>
pagerduty | <b20> | pagerduty
rollbar | <h32> | rollbar
bugsnag | <h32> | bugsnag
logdna | <h32> | logdna, mezmo
axiom | xaat-<h8>-<h4>-<h4>-<h4>-<h12>
axiom | xapt-<h8>-<h4>-<h4>-<h4>-<h12>
posthog | phx_<A40+>
posthog | phs_<A40+>
amplitude | <h32> | amplitude
mixpanel | <h32> | mixpanel
segment | sgp_<A64>
# --- data and stores
supabase | sbp_<h40>
supabase | sb_secret_<b20+>
planetscale | pscale_tkn_<b32+>
planetscale | pscale_pw_<b32+>
planetscale | pscale_oauth_<b32+>
neon | napi_<a40+>
neon | npg_<A12-30>
databricks | dapi<h32>
databricks | dose<h32>
confluent | cflt<A60>
mongodb | mdb_sa_sk_<b36+>
airtable | pat<A14>.<h64>
algolia | <h32> | algolia
contentful | CFPAT-<b43>
sanity | sk<A150+>
dropbox | sl.<b120+>
dropbox | sl.u.<b100+>
# --- work
atlassian | ATATT3<c100+>
atlassian | ATCTT3<c100+>
atlassian | ATSTT3<c100+>
linear | lin_api_<A40+>
linear | lin_oauth_<A40+>
notion | ntn_<A40+>
notion | secret_<A43>
figma | figd_<b36+>
figma | figdr_<b36+>
asana | <d1>/<d13-20>/<d13-20>:<h32>
asana | <d1>/<d14-20>:<h32>
clickup | pk_<d5-9>_<U32>
miro | eyJtaXJv<b40+>
trello | ATTA<h64+>
hubspot | pat-na1-<h8>-<h4>-<h4>-<h4>-<h12>
hubspot | pat-eu1-<h8>-<h4>-<h4>-<h4>-<h12>
salesforce | 00D<A12-15>!<c40-110>
typeform | tfp_<b40+>
shopify | shpat_<h32>
shopify | shpss_<h32>
shopify | shpca_<h32>
shopify | shppa_<h32>
shopify | shptka_<h32>
shopify | prtapi_<h32>
# --- people's networks, maps
facebook | EAA<A90+>
twitter | AAAAAAAAAAAAAAAAAAAA<c60+>
linkedin | WPL_AP1.<A16>.<B6+>
linkedin | WPL_AP0.<A16>.<B6+>
twitch | oauth:<a30>
mapbox | sk.eyJ1<b40+>.<b20+>
mapbox | tk.eyJ1<b40+>.<b20+>
ngrok | cr_<A40+>
ably | <b6>.<b6>:<b43> | ably
# --- frameworks' own
django | django-insecure-<t40+>
laravel | base64:<B43>=
rails | <h32> | rails_master_key, master.key, rails master
wireguard | <B43>= | privatekey, presharedkey, private key, preshared key
docker-swarm | SWMTKN-1-<a50>-<a25>
# --- hashes of passwords, as systems and web servers keep them: guessed in hours
crypt | $1$<c1-8>$<c22>
crypt | $5$<c1-16>$<c43>
crypt | $6$<c1-16>$<c86>
crypt | $apr1$<c8>$<c22>
crypt | $y$j<c1-3>$<c10-40>$<c43>
crypt | $2a$<d2>$<c53>
crypt | $2b$<d2>$<c53>
crypt | $2y$<d2>$<c53>
""".strip()
