/* SPDX-License-Identifier: MIT */
#include "record/page.h"

#include "base/file.h"

static const char style_colours[] =
    ":root{color-scheme:light "
    "dark;--paper:#f5f6f8;--card:#fff;--ink:#171a1f;--soft:#626b79;"
    "--line:#dfe3e8;--grid:#eceef1;"
    "--s1:#2a67d8;--s2:#e06c1f;--s3:#1a936f;--s4:#8a56d6;--s5:#d13b7d;--s6:#0e93a6;"
    "--s7:#a17a0c;--s8:#7c8592}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#101216;--card:#181b21;--ink:#"
    "e7e9ed;"
    "--soft:#9aa3b1;--line:#2b303a;--grid:#242932;"
    "--s1:#6d9eff;--s2:#ff9a52;--s3:#4cc59c;--s4:#b593f5;--s5:#f57cb0;--s6:#4cc3d4;"
    "--s7:#d9b24a;--s8:#99a2b0}}\n";

static const char style_page[] =
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica "
    "Neue',Arial,sans-serif}\n"
    "main{max-width:1240px;margin:0 auto;padding:32px 20px 48px}\n"
    "h1{font-size:26px;line-height:1.2;margin:0 0 6px;overflow-wrap:anywhere}\n"
    "p{margin:0 0 22px;color:var(--soft);max-width:80ch}\n"
    "footer{margin-top:28px;color:var(--soft);font-size:13px}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:"
    "14px;"
    "margin-bottom:14px}\n"
    ".tile,figure,details,.table{background:var(--card);border:1px solid var(--line);"
    "border-radius:10px}\n"
    ".tile{padding:13px 16px}\n"
    ".tile b{display:block;font-size:24px;font-weight:600;line-height:1.3;"
    "font-variant-numeric:tabular-nums}\n"
    ".tile span,.tile small{display:block;color:var(--soft);font-size:13px}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),"
    "1fr));"
    "gap:14px}\n"
    "figure{margin:0;padding:14px 16px 8px}\n"
    "figcaption{font-weight:600}\n"
    "figcaption "
    "small{font-weight:400;color:var(--soft);margin-left:10px;font-size:13px}\n";

static const char style_charts[] =
    ".legend{display:flex;flex-wrap:wrap;gap:2px 18px;font-size:13px;color:var(--soft);"
    "min-height:22px}\n"
    ".legend span{display:inline-flex;align-items:center;gap:7px}\n"
    ".legend i{width:18px;height:0;border-top:2.5px solid var(--c)}\n"
    ".legend i.faint{opacity:.45}\n"
    ".legend i.dash{border-top-style:dashed}\n"
    ".legend "
    "i.dots{width:9px;height:9px;border:0;border-radius:50%;background:var(--c)}\n"
    ".legend "
    "i.block{width:12px;height:12px;border:0;border-radius:3px;background:var(--c)}\n"
    "figure>svg{display:block;width:100%;height:auto}\n"
    "svg path{fill:none;stroke-linejoin:round;stroke-linecap:round}\n"
    "svg text{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}\n"
    ".mid{text-anchor:middle}.end{text-anchor:end}.strong{font-weight:600}\n"
    "svg text.strong{fill:var(--ink)}svg text.inside{fill:var(--card);font-weight:600}\n"
    ".grid{stroke:var(--grid)}.axis,.tick{stroke:var(--line)}\n"
    ".line path,.dots path{stroke:var(--c);stroke-width:2}\n"
    ".dots path{stroke-width:1.5}.dots circle{fill:var(--c);stroke:var(--card)}\n"
    ".thin path{stroke:var(--c);stroke-width:1.1}\n"
    ".faint path{stroke:var(--c);stroke-width:1;opacity:.38}\n"
    ".dash path{stroke:var(--c);stroke-width:1.5;stroke-dasharray:6 5}\n"
    ".part{fill:var(--c);stroke:var(--card)}\n";

static const char style_tables[] =
    ".table{overflow-x:auto;margin-bottom:14px}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:8px 16px;text-align:right;white-space:nowrap}\n"
    "th{color:var(--soft);font-weight:400;font-size:13px}\n"
    "td{border-top:1px solid var(--line)}\n"
    "th:first-child,td:first-child{text-align:left}\n"
    "td "
    "i{display:inline-block;width:11px;height:11px;border-radius:3px;background:var(--c);"
    "margin-right:9px}\n"
    "details{margin-top:14px;padding:12px 16px}\n"
    "summary{cursor:pointer;font-weight:600}\n"
    "pre{overflow-x:auto;font:13px/1.5 ui-monospace,Menlo,Consolas,monospace;margin:12px "
    "0 0}\n"
    "@media print{figure,.tile,.table{break-inside:avoid}}\n";

void wefti_page_begin(weft_ctx *ctx, wefti_buffer *out, const char *title) {
    wefti_buffer_text(
        ctx, out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<title>");
    wefti_buffer_html(ctx, out, title);
    wefti_buffer_text(ctx, out, " \xc2\xb7 weft</title>\n<style>\n");
    wefti_buffer_text(ctx, out, style_colours);
    wefti_buffer_text(ctx, out, style_page);
    wefti_buffer_text(ctx, out, style_charts);
    wefti_buffer_text(ctx, out, style_tables);
    wefti_buffer_text(ctx, out, "</style>\n</head>\n<body>\n<main>\n<h1>");
    wefti_buffer_html(ctx, out, title);
    wefti_buffer_text(ctx, out, "</h1>\n");
}

weft_status wefti_page_end(weft_ctx *ctx, wefti_buffer *out, const char *path) {
    wefti_buffer_text(
        ctx, out,
        "<footer>Drawn by weft from metrics.jsonl. Bytes are those of one node's "
        "network interface.</footer>\n</main>\n</body>\n</html>\n");
    WEFT_TRY(out->status);
    return wefti_file_write(ctx, path, out->bytes, out->n);
}

void wefti_tile_begin(weft_ctx *ctx, wefti_buffer *out, const char *label) {
    wefti_buffer_text(ctx, out, "<div class=\"tile\"><span>");
    wefti_buffer_html(ctx, out, label);
    wefti_buffer_text(ctx, out, "</span><b>");
}

void wefti_tile_note(weft_ctx *ctx, wefti_buffer *out) {
    wefti_buffer_text(ctx, out, "</b><small>");
}

void wefti_tile_end(weft_ctx *ctx, wefti_buffer *out) {
    wefti_buffer_text(ctx, out, "</small></div>\n");
}
