// Package scrape gives a web page as Markdown. A [Scraper] asks a site as an honest reader
// does: only addresses of the public internet (providers/fetch), no blocked sites, as
// robots.txt allows, for Markdown first, and with bounds on time, size, redirects and
// concurrency. HTML is read in the jail ([Jobs]); documents go to their reader
// ([Options.Document]); pages that are made by scripts go through a [Renderer] where there
// is one.
//
// A failed page is an [*Error] with its reason, in words for a client, and with the party
// at fault. Pages are cached for a while, by their final address.
//
// Out of scope: accounts and money, HTTP of our own API, and any way out
// other than providers/fetch.
package scrape
