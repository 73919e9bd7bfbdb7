// Reads and checks a SentencePiece model, a protobuf message of sentencepiece_model.proto, with the
// reader of base/wire_message.h. Everything that the library does not check itself is checked here:
// pieces, scores, byte fallback and the normalizer's rules. Unknown fields are skipped, as protobuf
// requires of readers.
#include "data/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/wire_message.h"
#include "data/character_map.h"
#include "data/unicode.h"

namespace tessera::data {
namespace {

using Kind = WireField::Kind;

// Field numbers of sentencepiece_model.proto.
namespace model_field {
constexpr uint32_t kPiece = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
}
namespace piece_field {
constexpr uint32_t kText = 1, kScore = 2, kType = 3;
}
namespace trainer_field {
constexpr uint32_t kModelType = 3, kSpaceAsSuffix = 24, kByteFallback = 35, kUnknownSurface = 44,
                   kBegin = 46, kEnd = 47, kPad = 48;
}
namespace normalizer_field {
constexpr uint32_t kName = 1, kMap = 2, kDummyPrefix = 3, kRemoveExtraSpaces = 4, kEscape = 5;
}

constexpr size_t kMostPieces = size_t{1} << 22;  // a limit above that of any model

// Returns the start of a text that may be long, for a message.
std::string shortened(const std::string& text) {
  constexpr size_t kShown = 40;
  if (text.size() <= kShown) return text;
  size_t end = kShown;
  // Moves the end to the start of a character.
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

class ModelReader {
 public:
  ModelReader(std::string_view bytes, const std::string& source)
      : message_(bytes, source), source_(source) {}

  SentencePieceModel read() {
    WireField field;
    while (message_.next(field)) {
      switch (field.number) {
        case model_field::kPiece:
          read_piece(message_.inside(bytes(message_, field)));
          break;
        case model_field::kTrainer:
          read_trainer(message_.inside(bytes(message_, field)));
          break;
        case model_field::kNormalizer:
          read_normalizer(message_.inside(bytes(message_, field)));
          break;
        case model_field::kDenormalizer:
          refuse_denormalizer(message_.inside(bytes(message_, field)));
          break;
        default:
          break;
      }
    }
    check();
    return std::move(model_);
  }

 private:
  // Typed access to the fields of the wire format. A field of another kind than expected means that
  // the file is another type of message. The error has the byte of the field.
  static const WireField& wanted(const WireReader& in, const WireField& field, Kind kind) {
    if (field.kind != kind) {
      in.refuse(field.at,
                fmt::format("field {} is of kind {}, expected {}: this is not a SentencePiece "
                            "model, or it is damaged",
                            field.number, static_cast<int>(field.kind), static_cast<int>(kind)));
    }
    return field;
  }
  static const WireField& bytes(const WireReader& in, const WireField& field) {
    return wanted(in, field, Kind::kBytes);
  }
  static uint64_t number(const WireReader& in, const WireField& field) {
    return wanted(in, field, Kind::kVarint).value;
  }
  static std::string text(const WireReader& in, const WireField& field) {
    const std::string_view text = bytes(in, field).bytes;
    if (find_invalid_utf8(text) < text.size() || text.find('\0') != text.npos) {
      in.refuse(field.at,
                fmt::format("field {} is not UTF-8, or contains a zero byte", field.number));
    }
    return std::string(text);
  }

  // A piece without a type is a normal one.
  void read_piece(WireReader in) {
    SentencePieceModel::Piece piece;
    WireField field;
    while (in.next(field)) {
      if (field.number == piece_field::kText) {
        piece.text = text(in, field);
      } else if (field.number == piece_field::kScore) {
        piece.score =
            std::bit_cast<float>(static_cast<uint32_t>(wanted(in, field, Kind::kFixed32).value));
      } else if (field.number == piece_field::kType) {
        // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
        const uint64_t type = number(in, field);
        if (type < 1 || type > 6)
          in.refuse(field.at, fmt::format("a piece has type {}, expected 1 to 6", type));
        piece.type = static_cast<PieceType>(type);
      }
    }
    model_.pieces.push_back(std::move(piece));
    if (model_.pieces.size() > kMostPieces)
      throw Error("{}: has more than {} pieces, the supported maximum", source_, kMostPieces);
  }

  // Reads only the trainer's settings that affect encoding. Fields with default values may be
  // absent.
  void read_trainer(WireReader in) {
    WireField field;
    while (in.next(field)) {
      switch (field.number) {
        case trainer_field::kModelType:
          kind_ = number(in, field);
          break;
        case trainer_field::kSpaceAsSuffix:
          model_.space_as_suffix = number(in, field) != 0;
          break;
        case trainer_field::kByteFallback:
          model_.byte_fallback = number(in, field) != 0;
          break;
        case trainer_field::kUnknownSurface:
          model_.unknown_text = text(in, field);
          break;
        case trainer_field::kBegin:
          model_.begin_name = text(in, field);
          break;
        case trainer_field::kEnd:
          model_.end_name = text(in, field);
          break;
        case trainer_field::kPad:
          model_.pad_name = text(in, field);
          break;
        default:
          break;
      }
    }
  }

  void read_normalizer(WireReader in) {
    WireField field;
    while (in.next(field)) {
      switch (field.number) {
        case normalizer_field::kName:
          model_.normalizer = text(in, field);
          break;
        case normalizer_field::kMap:
          model_.characters_map = bytes(in, field).bytes;
          break;
        case normalizer_field::kDummyPrefix:
          model_.add_dummy_prefix = number(in, field) != 0;
          break;
        case normalizer_field::kRemoveExtraSpaces:
          model_.remove_extra_spaces = number(in, field) != 0;
          break;
        case normalizer_field::kEscape:
          model_.escape_spaces = number(in, field) != 0;
          break;
        default:
          break;
      }
    }
  }

  // Rejects a model that changes decoded text, since its tokens would not represent fixed bytes.
  void refuse_denormalizer(WireReader in) const {
    WireField field;
    while (in.next(field)) {
      if (field.number != normalizer_field::kMap || bytes(in, field).bytes.empty()) continue;
      throw Error(
          "{}: the model changes the text after decoding (denormalizer_spec), which is not "
          "supported. Train it without --denormalization_rule_tsv",
          source_);
    }
  }

  void check() {
    constexpr uint64_t kUnigramType = 1, kBpeType = 2;
    if (kind_ != kUnigramType && kind_ != kBpeType) {
      throw Error("{}: is a model of kind {} ({}), expected unigram (1) or bpe (2)", source_, kind_,
                  kind_ == 3   ? "word"
                  : kind_ == 4 ? "char"
                               : "unknown");
    }
    model_.kind = kind_ == kBpeType ? SentencePieceKind::kBpe : SentencePieceKind::kUnigram;
    if (model_.pieces.empty()) {
      throw Error("{}: has no pieces: it is not a SentencePiece model, or it is empty", source_);
    }
    // The library copies these names without limiting their length.
    for (const std::string* name : {&model_.unknown_text, &model_.begin_name, &model_.end_name,
                                    &model_.pad_name, &model_.normalizer})
      if (name->size() > kLongestPiece)
        throw Error("{}: the name '{}' has {} bytes, expected at most {}", source_,
                    shortened(*name), name->size(), kLongestPiece);
    check_pieces();
    CharacterMap(model_.characters_map, source_);
  }

  // Checks the assumptions of the library: texts are unique, since an id is looked up by its text;
  // exactly one piece represents unknown text; and scores are not NaN, which cannot be compared.
  void check_pieces() const {
    std::unordered_set<std::string_view> seen;
    int unknown = 0, byte_pieces = 0, others = 0;
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      const SentencePieceModel::Piece& piece = model_.pieces[id];
      const auto refuse = [&](const char* why) {
        throw Error("{}: piece {} ('{}') {}", source_, id, shortened(piece.text), why);
      };
      if (piece.text.empty()) refuse("is empty");
      if (piece.text.size() > kLongestPiece)
        throw Error(
            "{}: piece {} ('{}') has {} bytes, expected at most {}. The file is damaged or was not "
            "made by SentencePiece: get the model again.",
            source_, id, shortened(piece.text), piece.text.size(), kLongestPiece);
      if (!std::isfinite(piece.score)) refuse("has a score that is not finite");
      if (!seen.insert(piece.text).second) refuse("is a duplicate");
      if (piece.type == PieceType::kByte) {
        if (byte_of(piece.text) < 0) refuse("is a byte piece, expected <0x00> to <0xFF>");
        ++byte_pieces;
      }
      unknown += piece.type == PieceType::kUnknown ? 1 : 0;
      others += piece.type == PieceType::kNormal ? 1 : 0;
    }
    if (unknown != 1) throw Error("{}: has {} unknown pieces, expected one", source_, unknown);
    if (others == 0) throw Error("{}: has no piece for text", source_);
    // A fallback that lacks a byte would fail at the first text that needs it.
    if (byte_pieces != (model_.byte_fallback ? 256 : 0)) {
      throw Error("{}: has {} pieces for bytes, expected {} {} byte fallback", source_, byte_pieces,
                  model_.byte_fallback ? 256 : 0, model_.byte_fallback ? "with" : "without");
    }
  }

  WireReader message_;
  const std::string& source_;
  SentencePieceModel model_;
  uint64_t kind_ = 1;
};

std::string sentinel_name(int32_t i) { return fmt::format("{}<extra_id_{}>", kSpaceCharacter, i); }

}  // namespace

// Parses "<0x0A>", the text of a piece that represents one byte; -1 for any other text.
int byte_of(std::string_view piece) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const size_t high = kDigits.find(piece[3]), low = kDigits.find(piece[4]);
  if (high == kDigits.npos || low == kDigits.npos) return -1;
  return static_cast<int>(high * 16 + low);
}

int32_t SentencePieceModel::control_id(std::string_view name) const {
  for (int32_t id = 0; id < std::ssize(pieces); ++id) {
    if (pieces[id].type == PieceType::kControl && pieces[id].text == name) {
      return id;
    }
  }
  return -1;
}

SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& source) {
  return ModelReader(bytes, source).read();
}

std::string with_sentinels(std::string_view bytes, int32_t count) {
  // Protobuf concatenates repeated fields of concatenated messages, so appended pieces extend the
  // list without changing the bytes before them.
  std::string out(bytes);
  for (int32_t i = count; i-- > 0;) {
    std::string piece;
    append_wire_bytes(piece, piece_field::kText, sentinel_name(i));
    append_wire_float(piece, piece_field::kScore, 0);
    append_wire_varint(piece, piece_field::kType, static_cast<uint64_t>(PieceType::kUserDefined));
    append_wire_bytes(out, model_field::kPiece, piece);
  }
  return out;
}

int32_t count_sentinels(const SentencePieceModel& model) {
  int32_t count = 0;
  // Counts sentinels from the end, where the largest id is <extra_id_0>. Some models spell them
  // without the space character.
  for (auto piece = model.pieces.rbegin(); piece != model.pieces.rend(); ++piece, ++count) {
    const std::string name = sentinel_name(count);
    if (piece->text != name && piece->text != std::string_view(name).substr(kSpaceCharacter.size()))
      break;
  }
  return count;
}

}  // namespace tessera::data
