#!/bin/bash
# Builds the documentation site into build-site/site. Fails on any warning: a broken link or anchor, a page that is not
# in the navigation. The packages are installed into an environment outside the repository when it does not exist.
# usage: scripts/build_site.sh [serve]        (serve: show it on http://127.0.0.1:8000 instead)
set -eu
cd "$(dirname "$0")/.."
venv=${SITE_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera-site}
if ! cmp -s scripts/site_requirements.txt "$venv/requirements.txt"; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q -r scripts/site_requirements.txt
  cp scripts/site_requirements.txt "$venv/requirements.txt"
fi

# All pages with their pictures, at their paths in the repository.
pages=build-site/pages
rm -rf "$pages"
mkdir -p "$pages"
git ls-files --cached --others --exclude-standard -- README.md CONTRIBUTING.md CHANGELOG.md 'docs/*.md' 'docs/*.svg' 'examples/*' \
  'studies/*.md' 'studies/*.svg' | while read -r file; do
  if [ -f "$file" ]; then
    mkdir -p "$pages/$(dirname "$file")"
    cp "$file" "$pages/$file"
  fi
done
export NO_MKDOCS_2_WARNING=1
case ${1:-build} in
  serve) exec "$venv/bin/mkdocs" serve ;;
  build)
    # Not --quiet: with it mkdocs does not count warnings.
    if ! log=$("$venv/bin/mkdocs" build --strict 2>&1); then
      echo "$log" | grep -v "^INFO" >&2
      exit 1
    fi
    echo "build-site/site/index.html" ;;
  *) echo "usage: scripts/build_site.sh [serve]" >&2; exit 2 ;;
esac
